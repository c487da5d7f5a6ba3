"""A module of the user's, beside the script that uses it."""

import functools

import torch


def make(size):
    return torch.zeros(size, dtype=torch.uint8, device="cuda")  # SITE: ops make


def decorated(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments)
    return wrapper


@decorated
def wrapped(size):
    return torch.zeros(size, dtype=torch.uint8, device="cuda")  # SITE: ops wrapped


def generate(sizes):
    for size in sizes:
        yield torch.zeros(size, dtype=torch.uint8, device="cuda")  # SITE: ops generator


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        scratch = torch.zeros(210000, dtype=torch.uint8, device="cuda")  # SITE: ops backward
        return grad * x * 2 + scratch[0]  # SITE: ops grad
