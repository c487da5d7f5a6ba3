"""Many equal small products.

Usage: gemm_loop.py STEPS [loop | slices | shared | chain | activated | batched]
  loop      one after the other, kept in a list
  slices    the same, each into its part of one tensor
  shared    all with one weight
  chain     each with the last one's result
  activated with a kernel after each
  batched   one call for all
"""

import sys

import torch

STEPS, MODE = int(sys.argv[1]), sys.argv[2]
COUNT = 32
a = torch.zeros(COUNT, 64, 64, device="cuda")
b = torch.zeros(COUNT, 64, 64, device="cuda")
out = torch.zeros(COUNT, 64, 64, device="cuda")


def step():
    if MODE == "batched":
        return torch.bmm(a, b)
    if MODE == "loop":
        return [a[i] @ b[i] for i in range(COUNT)]  # SITE: loop
    if MODE == "shared":
        return [a[i] @ b[0] for i in range(COUNT)]  # SITE: shared
    x = a[0]
    for i in range(COUNT):
        if MODE == "slices":
            out[i] = a[i] @ b[i]  # SITE: slices
        elif MODE == "chain":
            x = x @ b[i]
        else:
            x = torch.relu(a[i] @ b[i])
    return x


for _ in range(STEPS):
    kept = step()
torch.cuda.synchronize()
print(f"count={COUNT}")
