"""A step runs out of memory; it is tried again with half the batch, inside of the except block (where
the exception still holds the frames of the failed step) or after it; in forward or in backward."""

import sys

import torch
from torch import nn

MODE = sys.argv[1]
WIDTH = 1 << 20  # of a row, in floats: 4 MiB
LAYERS = 6


class Scale(torch.autograd.Function):
    """An operation that keeps its output, and whose backward needs as much again."""

    @staticmethod
    def forward(ctx, x, weight):
        y = torch.empty_like(x)  # SITE: c09 activation
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        scratch = [torch.empty_like(y) for _ in range(2)] if MODE.startswith("backward") else []  # SITE: c09 scratch
        del scratch
        return torch.empty_like(y), None


def forward(x, weight):
    for _ in range(LAYERS):
        x = Scale.apply(x, weight)
    return x


def step(rows, weight):
    x = torch.empty(rows, WIDTH, device="cuda", requires_grad=True)
    y = forward(x, weight)
    if MODE.startswith("backward"):
        y.backward(y.detach())


def attempt(rows, weight):
    try:
        step(rows, weight)  # SITE: c09 call
        return 1
    except torch.OutOfMemoryError as error:
        print(f"failed_{rows}=1 held_{rows}={torch.cuda.memory_allocated()}")
        if MODE.endswith("inside"):
            return attempt(rows // 2, weight) if rows > 16 else 0
    return attempt(rows // 2, weight) if rows > 16 else 0


weight = nn.Parameter(torch.empty(64, WIDTH, device="cuda"))
print(f"before={torch.cuda.memory_allocated()}")
print(f"worked={attempt(64, weight)}")
