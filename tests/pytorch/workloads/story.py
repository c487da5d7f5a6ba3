"""Trains until memory runs out: each step keeps 16 MiB. Says what PyTorch itself counted then.

ARGS: exit (uncaught), caught, killed (by itself, in the handler).
"""

import os
import signal
import sys

import torch

MIB = 1 << 20
how = sys.argv[1]
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(3)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
kept = []


def step(size):
    loss = model(torch.ones(64, 512, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    kept.append(torch.zeros(size, dtype=torch.uint8, device="cuda"))  # SITE: kept


def say():
    print("count", len(kept), "allocated", torch.cuda.memory_allocated(), "reserved", torch.cuda.memory_reserved(),
          flush=True)


try:
    for _ in range(1000):
        step(16 * MIB)
except torch.cuda.OutOfMemoryError:
    say()
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "exit":
        raise
