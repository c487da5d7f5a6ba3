"""After a census nothing of it is left: the same counts of references, the same memory, the same deaths. Prints
them; without us the output is the same."""

import gc
import sys
import weakref

import torch
from torch import nn

from listing import run_out, say, settle

deaths = []


class Holder:
    def __init__(self, t):
        self.t = t


gc.disable()
model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)).cuda()
losses = [model(torch.randn(8, 64, device="cuda")).sum() for _ in range(4)]
holder = Holder(torch.empty(1 << 20, device="cuda"))
cycle = Holder(torch.empty(1 << 20, device="cuda"))
cycle.me = cycle
view = torch.empty(1 << 20, device="cuda")[:10]
for name, thing in (("holder", holder), ("tensor", holder.t), ("model", model), ("loss", losses[0]), ("view", view),
                    ("cycle", cycle)):
    weakref.finalize(thing, deaths.append, name)
del thing, name


def counts():
    things = [model, losses, losses[0], losses[1].grad_fn, holder, holder.t, cycle, view, globals(), model[0].weight,
              Holder, weakref]
    return [sys.getrefcount(t) for t in things]


def report():
    return {"counts": counts(), "objects": len(gc.get_objects()), "allocated": torch.cuda.memory_allocated()}


report(), settle()
before = counts()
run_out()
settle()
first = report()
for _ in range(3):
    run_out()
    settle()
said = [first["allocated"], report()["objects"] - first["objects"]]
more = [[a - b for a, b in zip(c, before)] for c in (first["counts"], report()["counts"])]
del holder, view, losses
said += [torch.cuda.memory_allocated(), sorted(deaths)]
del cycle
said += [torch.cuda.memory_allocated(), sorted(deaths)]
gc.collect()
said += [torch.cuda.memory_allocated(), sorted(deaths)]
del model
gc.collect()
said += [torch.cuda.memory_allocated(), sorted(deaths)]
torch.cuda.empty_cache()
say(said=said, more=more, reserved=torch.cuda.memory_reserved())
