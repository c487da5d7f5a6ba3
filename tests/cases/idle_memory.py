"""Memory that lies idle, and memory that only seems to.

Usage: idle_memory.py unused | early | late | busy | graph | lists | many | brief | elsewhere
Prints the bytes that lie idle at the peak (idle=), and what the loop holds.
"""

import sys

import torch
from torch import nn

MIB = 1 << 20
STEPS = 12
WEIGHT = 128 * MIB


def buffer(size=WEIGHT):
    return torch.empty(size // 4, device="cuda")


def step(model, batch):
    """No optimizer: nothing but products and simple kernels, whose arguments can be read."""
    for _ in range(4):
        batch = model(batch).relu()
    return batch


def loop(model, batch, steps=STEPS):
    with torch.no_grad():
        for _ in range(steps):
            held = step(model, batch)
            extra = torch.zeros(WEIGHT // 4, device="cuda")
            extra.add_(1)
            torch.cuda.synchronize()
            del held, extra


def unused(model, batch):
    spare = torch.empty(WEIGHT // 4, device="cuda")  # SITE: spare
    loop(model, batch)
    del spare
    return WEIGHT


def early(model, batch):
    results = torch.empty(WEIGHT // 4, device="cuda")  # SITE: results
    loop(model, batch)
    results.zero_()
    results.add_(1)  # SITE: first use
    return WEIGHT


def late(model, batch):
    table = torch.empty(WEIGHT // 4, device="cuda")  # SITE: table
    table.fill_(1)
    table.mul_(2)  # SITE: last use
    loop(model, batch)
    del table  # SITE: free
    return WEIGHT


def busy(model, batch):
    """Used now and then, by a kernel, a copy, a product and a part of it."""
    kept = buffer()
    kept.zero_()
    for number in range(STEPS):
        loop(model, batch, 1)
        if number % 2 == 0:
            kept[5 * MIB:6 * MIB].add_(1)
    return 0


def graph(model, batch):
    """A graph may use it, for all that is known."""
    spare = buffer()
    captured = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(captured):
        step(model, batch)
    for _ in range(STEPS):
        captured.replay()
        loop(model, batch, 1)
    del spare
    return 0


def in_lists(model, batch, tensors):
    spare = torch.empty(WEIGHT // 4, device="cuda")  # SITE: beside lists
    list_of = [torch.zeros(64, device="cuda") for _ in range(tensors)]
    for _ in range(STEPS):
        loop(model, batch, 1)
        torch._foreach_add_(list_of, list_of)
    del spare


def lists(model, batch):
    """All tensors of a list are told, and it is none of them."""
    in_lists(model, batch, 24)
    return WEIGHT


def many(model, batch):
    """A launch with more addresses than are told of may use it, too."""
    in_lists(model, batch, 100)
    return 0


def brief(model, batch):
    """A loop's own: each step's is used in its step, and held by its name until the next one's."""
    with torch.no_grad():
        for _ in range(STEPS):
            held = buffer()
            held.zero_()
            step(model, batch)
            torch.cuda.synchronize()
    return 0


def elsewhere(model, batch):
    """The peak comes before it, and it is small beside the device."""
    large = buffer(2 * WEIGHT)
    large.zero_()
    del large
    table = buffer(16 * MIB)
    table.zero_()
    loop(model, batch)
    del table
    return 0


def main(how):
    model = nn.Linear(512, 512, bias=False).cuda()
    batch = torch.zeros(256, 512, device="cuda")
    loop(model, batch, 3)
    modes = unused, early, late, busy, graph, lists, many, brief, elsewhere
    idle = {f.__name__: f for f in modes}[how](model, batch)
    torch.cuda.synchronize()
    print(f"idle={idle}")


main(sys.argv[1])
