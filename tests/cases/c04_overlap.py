"""A loop that still holds the old value while it makes the new one.

Usage: c04_overlap.py MEBIBYTES [held | growing | dropped | chain | loader]
  held     x = make(): the old x is there until the new one is
  growing  the same with an attribute, 2 MiB more in each step
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


class Cache:
    table = None

    def refresh(self, size):
        self.table = torch.zeros(size << 20, dtype=torch.uint8, device="cuda")  # SITE: c04 refresh


def growing():
    weights, cache = torch.empty(20 << 20, dtype=torch.uint8, device="cuda"), Cache()
    for i in range(60):
        cache.refresh(MIB + 2 * i)
        torch.cuda.synchronize()
    return weights


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


{"held": held, "growing": growing, "dropped": dropped, "chain": chain, "loader": loader}[MODE]()
print(f"bytes={ELEMENTS * 4}")
