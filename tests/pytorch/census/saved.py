"""Tensors that a graph has saved by hooks: a checkpoint's, the user's, those that go to the host; and what
a Function of the user's keeps. Prints the hooks that were called by the census."""

import torch
from torch.utils.checkpoint import checkpoint

from listing import run_out, settle

called = []
x = torch.ones(1000, device="cuda", requires_grad=True)


class Box:
    def __init__(self, tensor):
        self.tensor = tensor


def pack(tensor):
    return Box(tensor * 1)


def unpack(box):
    called.append("unpack")
    return box.tensor


def layer(a):
    called.append("layer")
    return (a * 2).sin()


class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a * 3)
        ctx.kept = {"k": [a.detach() + 1]}
        return a * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


checkpointed = checkpoint(layer, x, use_reentrant=False).sum()
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    hooked = (x * 2).sin().sum()
with torch.autograd.graph.save_on_cpu():
    on_host = (x * 2).sin().sum()
own = Keeps.apply(x).sum()
over = (x * 2).sin().sum()
over.backward()
plain = (x * 2).sin().sum()
called.clear()
run_out()
settle()
print(called)
plain.backward()
hooked.backward()
checkpointed.backward()
print(called, x.grad.shape)
