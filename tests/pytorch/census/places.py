"""Tensors in all the places that a program keeps them in. With an argument, an out-of-memory error while
they are there; without, only the end of the program."""

import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field

import torch
from torch import nn

from listing import at, listing, run_out, say, settle


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
        self.register_buffer("mask", torch.zeros(16, 16))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Attention() for _ in range(4)])
        self.head = nn.Sequential(OrderedDict(first=nn.Linear(64, 64), last=nn.Linear(64, 2)))


@dataclass
class State:
    step: int
    buffer: torch.Tensor
    more: list = field(default_factory=list)


class Slots:
    __slots__ = ("kept", "empty")

    def __init__(self, kept):
        self.kept = kept


class Class:
    shared = None


Pair = namedtuple("Pair", "left right")
places = {}


def made(name, *words):
    """A tensor with an address of its own; `words` are what its path must hold."""
    t = torch.empty(256 + 128 * len(places), device="cuda")
    places[name] = [at(t), list(words)]
    return t


def known(name, t, *words):
    places[name] = [at(t), list(words)]
    return t


def closed_over():
    inside = made("closure", "closure_user", "inside")

    def user():
        return inside
    return user


def generate():
    waiting = made("generator", "generator_kept", "waiting")
    yield waiting.shape
    yield waiting.shape


def with_default(t=None):
    return t


model = Model().cuda()
known("parameter", model.layers[3].qkv.weight, "model", "layers", "3", "qkv", "weight")
known("buffer", model.layers[0].mask, "model", "layers", "0", "mask")
known("sequential", model.head.first.bias, "model", "head", "first", "bias")
optimizer = torch.optim.Adam(model.parameters())
model.head(torch.randn(8, 64, device="cuda")).sum().backward()
optimizer.step()
known("gradient", model.head.last.weight.grad, "model", "head", "last", "weight", "grad")
known("optimizer", optimizer.state[model.head.last.weight]["exp_avg"], "exp_avg")
losses = [torch.zeros(1) for _ in range(10)] + [made("list", "losses", "[10]")]
table = {"a": made("dictionary", "table", "a"), 7: made("number key", "table", "7")}
nested = {"x": [{"y": (1, made("nested", "nested", "x", "[0]", "y", "[1]"))}]}
state = State(1, made("dataclass", "state", "buffer"), [made("dataclass list", "state", "more", "[0]")])
slots = Slots(made("slots", "slots", "kept"))
pair = Pair(None, made("named tuple", "pair"))
queue = deque([made("deque", "queue")])
counts = defaultdict(list, k=[made("defaultdict", "counts", "k", "[0]")])
Class.shared = made("class attribute", "Class", "shared")
with_default.__defaults__ = (made("default", "with_default"),)
with_default.attribute = made("function attribute", "with_default", "attribute")
closure_user = closed_over()
generator_kept = generate()
next(generator_kept)
bound = State(2, made("bound method", "bound")).__eq__
strided = made("strided", "strided").view(-1, 2).t()
base = made("view", "part")
part = base[10:20]


def work(argument):
    local = made("local", "local")
    del base_of[:]
    if len(sys.argv) > 1:
        say(**listing(), places=places)
        run_out()
        settle()
    return local.shape, argument.shape


base_of = [base]
del base
if len(sys.argv) > 1:
    work(made("argument", "argument"))
else:
    say(**listing(), places=places)
