"""Host tensors that are no one piece of memory, or not of the wanted type, on their way to the device.

Usage: strided_host.py MODE STEPS
Prints the bytes of one copy.
"""

import sys

import torch

MODE, STEPS = sys.argv[1], int(sys.argv[2])
SIZE = 1024

base = torch.ones(SIZE, 2 * SIZE).pin_memory()
made = torch.empty(SIZE, SIZE, device="cuda")
wide = torch.empty(SIZE, 2 * SIZE, device="cuda", dtype=torch.float64)
nhwc = torch.empty(4, 8, 256, 256, device="cuda").to(memory_format=torch.channels_last)
images = torch.ones(4, 8, 256, 256)


def every_second():
    return base[:, ::2].to("cuda", non_blocking=True)  # SITE: every second


def left_half():
    return base[:, :SIZE].to("cuda", non_blocking=True)  # SITE: left half


def into():
    made.copy_(base[:, ::2])  # SITE: into


def other_type():
    """Of .to() the device converts."""
    return base[:, :].to("cuda", torch.float64, non_blocking=True)  # SITE: other type


def converted():
    wide.copy_(base)  # SITE: converted


def broadcast():
    made.copy_(base[0, :SIZE])  # SITE: broadcast


def transposed():
    """Dense all the same: one copy, from page-locked memory."""
    return base.t().to("cuda", non_blocking=True)  # SITE: transposed


def device_strided():
    """What is strided here is the device's side: pinning would help."""
    nhwc.copy_(images)  # SITE: device strided


def contiguous():
    return base.to("cuda", non_blocking=True)


for _ in range(STEPS):
    globals()[MODE]()
    torch.cuda.synchronize()
print(f"copy_bytes={SIZE * 2 * SIZE * 8 if MODE == 'converted' else SIZE * SIZE * 4}")
