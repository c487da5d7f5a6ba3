"""What stays is cut from one large piece in the first steps; later ones need more than its rest at once."""

import sys

import torch

MIB = 1 << 20
ROWS = 3900 if sys.argv[1] == "stranded" else 2400


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def tables():
    first = torch.empty(200 * MIB, dtype=torch.uint8, device="cuda")  # SITE: stranded tables
    return first, take(50), take(50)


def step():
    out = take(ROWS)
    out[:1024].add_(1)
    second = take(ROWS // 2)
    second[:1024].copy_(out[:1024])
    return out.numel()


scratch = take(4000)
scratch[:1024].zero_()
del scratch
kept = tables()
for _ in range(16):
    step()
torch.cuda.synchronize()
print(f"reserved={torch.cuda.memory_reserved()} kept={sum(t.numel() for t in kept)}")
