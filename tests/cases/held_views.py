"""A training loop that keeps more than it means to. argv[1]: slices (of each step's output), losses (with
their graphs), sum (of losses), packed (modules dropped from a checkpoint in one buffer), evaluate (without
no_grad()), cycle, or healthy. The census is made at exit."""

import gc
import sys

import torch
from torch import nn

HOW, STEPS, MIB = sys.argv[1], 12, 1 << 20
torch.manual_seed(0)
torch.cuda.mem_get_info()  # shares are of what the device has
model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
optimizer = torch.optim.Adam(model.parameters())
kept, total = [], torch.zeros((), device="cuda")


class Node:
    def __init__(self, parent=None):
        self.parent, self.children = parent, []
        self.values = torch.zeros(MIB, device="cuda")  # SITE: cycle
        if parent:
            parent.children.append(self)


def step(x):
    global total
    out = model(x)  # SITE: forward
    loss = out.square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=HOW in ("losses", "sum"))
    optimizer.step()
    if HOW == "slices":
        kept.append(out.detach()[0])
    elif HOW == "losses":
        kept.append(loss)
    elif HOW == "sum":
        total = total + loss  # SITE: sum
    elif HOW == "cycle":
        Node(Node())
    elif HOW == "healthy":
        kept.append(out.detach()[0].clone())
        kept.append(loss.detach())


def load():
    """Sixteen layers in one buffer, of which three stay."""
    flat = torch.empty(16 * MIB, device="cuda")  # SITE: packed
    layers = nn.ModuleList(nn.Identity() for _ in range(16))
    for layer, part in zip(layers, flat.split(MIB)):
        layer.weight = nn.Parameter(part)
    return layers[:3]


gc.disable()
if HOW == "packed":
    loaded = load()
tied = [model[0].weight, model[0].weight]
query, key, value = torch.randn(64, 3 * 256, device="cuda").chunk(3, 1)
for _ in range(STEPS):
    if HOW == "evaluate":
        kept.append(model(torch.randn(4096, 256, device="cuda")))
        continue
    step(torch.randn(4096, 256, device="cuda"))
torch.cuda.synchronize()
if HOW == "losses":
    print(f"bytes={sum(4096 * (2 * 1024 + 2 * 256) * 4 for _ in kept)} own={512 * len(kept)}")
elif HOW == "evaluate":
    print(f"bytes={STEPS * 4096 * (2 * 1024 + 256) * 4}")
elif HOW == "slices":
    print(f"bytes={len(kept) * (4096 - 1) * 256 * 4}")
elif HOW == "sum":
    print(f"bytes={STEPS * 4096 * (2 * 1024 + 2 * 256) * 4}")
elif HOW == "packed":
    print(f"bytes={13 * MIB * 4}")
elif HOW == "cycle":
    print(f"bytes={STEPS * 2 * MIB * 4}")
