"""Tensors that go to the host and back, and host memory that only looks like it.

Usage: round_trip.py MODE STEPS
Prints the bytes of one copy (copy_bytes=).
"""

import os
import sys
import tempfile

import torch

MODE, STEPS = sys.argv[1], int(sys.argv[2])
ROWS, SIZE = 4096, 8192  # 128 MiB of float32: the host needs 1.3 ms to write them

x = torch.empty(ROWS, SIZE, device="cuda")
print(f"copy_bytes={ROWS * SIZE * 4}")


def straight():
    return x.cpu().cuda()  # SITE: straight


def two_lines():
    y = x.to("cpu")  # SITE: there
    return y.to("cuda")  # SITE: back


class Pinned:
    def __init__(self):
        self.buffer = torch.empty(ROWS, SIZE, pin_memory=True)

    def __call__(self):
        self.buffer.copy_(x, non_blocking=True)  # SITE: pinned
        return self.buffer.to("cuda", non_blocking=True)


def devices():
    return x.cpu().to("cuda:1")  # SITE: devices


class Traced:
    """A helper that was written for the host, kept in the graph."""

    def __init__(self):
        def model(batch):
            return batch.to("cpu").to("cuda")

        self.model = torch.jit.trace(model, x, check_trace=False)

    def __call__(self):
        return self.model(x)  # SITE: traced


class Loader:
    """A buffer that results come out in, and that the next batch is put into."""

    def __init__(self):
        self.buffer = torch.empty(ROWS, SIZE)

    def __call__(self):
        self.buffer.copy_(x)
        self.buffer.fill_(1)
        x.copy_(self.buffer)


class PinnedLoader:
    def __init__(self):
        self.buffer = torch.empty(ROWS, SIZE, pin_memory=True)

    def __call__(self):
        self.buffer.copy_(x, non_blocking=True)
        torch.cuda.synchronize()
        self.buffer.fill_(1)
        x.copy_(self.buffer, non_blocking=True)


def freed():
    """The allocator gives the results' memory out again, to the next batch."""
    x.cpu()
    return torch.ones(ROWS, SIZE).cuda()


def checkpoint():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.pt")
        torch.save({"x": x[:1024]}, path)
        x[:1024].copy_(torch.load(path)["x"])


def item():
    value = x[0, :2048].sum().item()
    return torch.full((2048,), value).cuda()


def offload():
    """Saved for the backward pass on the host: there is a forward pass between."""
    y = x.cpu()
    (y + 1).sum()
    return y.cuda()


step = globals()[MODE]
step = step() if isinstance(step, type) else step
for _ in range(STEPS):
    step()
    torch.cuda.synchronize()
