"""A loop that still holds the old value while it makes the new one.

Usage: c04_overlap.py MEBIBYTES [held | dropped | chain | loader]
  held     x = make(): the old x is there until the new one is
  dropped  the same with `del x` before
  chain    x = layer(x): the new one is made of the old one
  loader   the next batch is fetched while the present one is worked on
"""

import sys

import torch

MIB, MODE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "held"
ELEMENTS = MIB * (1 << 20) // 4


def make(seed):
    return torch.mul(seed, 2.0)  # SITE: c04 make


def held():
    seed = torch.ones(1, device="cuda").expand(ELEMENTS)
    x = None
    for _ in range(8):
        x = make(seed)
        x.sum()
    return x


def dropped():
    seed = torch.ones(1, device="cuda").expand(ELEMENTS)
    for _ in range(8):
        x = make(seed)
        x.sum()
        del x


def chain():
    layers = [torch.ones(1, device="cuda") for _ in range(6)]
    for _ in range(8):
        x = torch.zeros(ELEMENTS).cuda()
        for layer in layers:
            x = x + layer
        x.sum()


def loader():
    host = torch.zeros(ELEMENTS).pin_memory()
    following = host.to("cuda", non_blocking=True)
    for _ in range(8):
        batch, following = following, host.to("cuda", non_blocking=True)
        for _ in range(6):
            batch.sum()


{"held": held, "dropped": dropped, "chain": chain, "loader": loader}[MODE]()
print(f"bytes={ELEMENTS * 4}")
