"""Losses that are kept with their graphs, beside a checkpointed forward pass. Prints what deleting them gives
back: the bytes that they held."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from listing import at, run_out, say, settle

calls = {"forward": 0, "pack": 0, "unpack": 0, "backward": 0}


class Counted(nn.Linear):
    def forward(self, x):
        calls["forward"] += 1
        return super().forward(x)


class Custom(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x * 2)
        ctx.kept = x * 3
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        calls["backward"] += 1
        return ctx.saved_tensors[0] * grad


def pack(t):
    calls["pack"] += 1
    return t.detach()  # not itself: an output that its own node holds is never freed


def unpack(t):
    calls["unpack"] += 1
    return t


def allocated():
    torch.cuda.synchronize()
    return torch.cuda.memory_allocated()


model = nn.Sequential(Counted(256, 256, bias=False), nn.Sigmoid(), Counted(256, 256, bias=False)).cuda()
weights = [at(p) for p in model.parameters()]
x = torch.randn(512, 256, device="cuda")
losses = []
for _ in range(5):
    losses.append(model(x).square().mean())
saved = {"losses": [at(t) for t in losses]}
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    hooked = model(x).square().mean()
checkpointed = checkpoint(model, x, use_reentrant=False).square().mean()
reentrant = checkpoint(model, x.detach().requires_grad_(), use_reentrant=True).square().mean()
custom = Custom.apply(torch.randn(1024, 256, device="cuda", requires_grad=True) * 1)
total = torch.zeros((), device="cuda")
for _ in range(3):
    total = total + model(x).square().mean()
deep = torch.zeros(128, device="cuda", requires_grad=True)
start = deep
for _ in range(20_000):  # many nodes; each saves nothing
    deep = deep + 1
for name in ("hooked", "checkpointed", "reentrant", "custom", "total", "deep"):
    saved[name] = at(globals()[name])
before = dict(calls)
run_out()
settle()
after = dict(calls)
drops = {}
for name in ("losses", "hooked", "checkpointed", "custom", "total", "deep"):
    held = allocated()
    del globals()[name]
    drops[name] = held - allocated()
say(calls=[before, after], drops=drops, saved=saved, weights=weights)
