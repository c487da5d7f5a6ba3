"""A batched product whose second operand is the same for most of the batch.

Usage: c26_broadcast.py [matmul | einsum | linear]
  matmul  the operand is expanded and written out, 8,192 times
  einsum  the same result: the shared dimension becomes rows
  linear  one matrix without a batch
"""

import sys

import torch
import torch.nn.functional as F

MODE = sys.argv[1]
a = torch.empty(8192, 32, 1, 1024, device="cuda", dtype=torch.bfloat16)
b = torch.empty(1, 32, 1024, 128, device="cuda", dtype=torch.bfloat16)


def matmul(a, b):
    return torch.matmul(a, b)  # SITE: c26


def einsum(a, b):
    return torch.einsum("nhqk,mhkv->nhqv", a, b)


def linear(a, b):
    return F.linear(a.view(-1, 1024), b[0, 0].t())


{"matmul": matmul, "einsum": einsum, "linear": linear}[MODE](a, b)
torch.cuda.synchronize()
