"""Backward work of nodes that were made in several threads, again by autograd itself, and in a
checkpoint: each kind of operator has one line."""

import threading

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

both = threading.Barrier(2)


def leaf():
    return torch.randn(30000, device="cuda", requires_grad=True)


def decoy():
    """Nodes with the numbers that other threads' nodes have, too."""
    value = leaf()
    for _ in range(60):
        value = value.sin()  # SITE: backward decoy
    return value


def one(x):
    return x.sigmoid()  # SITE: backward sigmoid


def two(x):
    for _ in range(3):
        x = x.cos()
    return x.tanh()  # SITE: backward tanh


def train(forward):
    for _ in range(5):
        x = leaf()
        y = forward(x).sum()
        both.wait()
        y.backward()
        both.wait()


def inner(x):
    return functional.elu(x)  # SITE: backward elu


def outer(x):
    return functional.softplus(x.relu())  # SITE: backward softplus


def main():
    kept = decoy()
    threads = [threading.Thread(target=train, args=(forward,)) for forward in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for reentrant in (False, True):
        y = checkpoint(inner, outer(leaf()), use_reentrant=reentrant)
        y.sum().backward()
    x = leaf()
    grad, = torch.autograd.grad(functional.silu(x).sum(), x, create_graph=True)  # SITE: backward silu
    (grad * grad).sum().backward()
    torch.cuda.synchronize()
    print("done", kept.numel())


if __name__ == "__main__":
    main()
