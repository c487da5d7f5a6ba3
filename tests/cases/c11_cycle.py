"""Training steps whose tensors hang on a reference cycle: they stay until Python's collector runs.

Usage: c11_cycle.py STEPS [cycle | explicit | kept | nested | broken | never]
  cycle     the collector runs by itself, every few steps
  explicit  the program calls the collector, every few steps
  kept      the same amounts, held on purpose for a few steps and then dropped by hand
  nested    as kept, each inside of other objects
  broken    the cycle is broken in each step: nothing waits
  never     the collector is switched off: it grows
Prints what one step's tensors take, and the most steps whose tensors waited at once.
"""

import gc
import sys

import torch
from torch import nn

STEPS, MODE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cycle"
SIDE, GENERATIONS = 1024, 5


class CompiledStep:
    """What a compiled step holds: its tensors, and by a closure itself."""

    def __init__(self, weights):
        self.inside = [torch.mul(weights, 2.0) for _ in range(2)]  # SITE: c11 make
        self.run = lambda: self.inside[0].add_(self.inside[1])


class Node:
    """An object that the collector counts, as a step of a program makes many."""

    def __init__(self):
        self.next = None


def main():
    model = nn.Linear(SIDE, SIDE).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if MODE != "cycle":
        gc.disable()
    else:
        gc.set_threshold(2000, 1000, 1000)
    bystanders, held = [], []
    waiting = most = 0

    def collected(phase, info):
        nonlocal waiting
        if phase == "stop":
            waiting = 0

    gc.callbacks.append(collected)
    for _ in range(STEPS):
        batch = torch.randn(16, SIDE).pin_memory().cuda(non_blocking=True)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        step = CompiledStep(model.weight.detach())
        step.run()
        waiting += 1
        most = max(most, waiting)
        if MODE == "broken":
            step.run = None
        if MODE == "nested":
            step.run = None
            held.append({"step": [(step,)]})
            if len(held) == GENERATIONS:
                held.clear()
        if MODE == "kept":
            step.run = None
            held.append(step)
            if len(held) == GENERATIONS:
                held.clear()  # SITE: c11 drop
        del step
        if MODE == "explicit" and waiting == GENERATIONS:
            gc.collect()  # SITE: c11 collect
        bystanders.extend(Node() for _ in range(370))
    print(f"step_bytes={2 * SIDE * SIDE * 4} steps={STEPS} waiting={most}")


main()
