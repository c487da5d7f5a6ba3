"""Gradients that ranks reduce together: DistributedDataParallel with one rank, or a flat buffer by hand.

Usage: ddp_buckets.py MODE STEPS
MODE: copied: DDP as it comes; views: gradients are views of the buckets; strides: so too, but one small gradient
has other strides than its bucket's view; flat: a buffer of the program's own, out of which it copies.
Prints the bytes of the gradients and whether DDP warned of strides.
"""

import sys
import tempfile
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MODE, STEPS = sys.argv[1], int(sys.argv[2])


def network():
    # A filter of 1x1 is channels first as much as channels last: of an input that is channels last its gradient
    # comes with the other's strides.
    small = nn.Conv2d(32, 16, 1, bias=False)
    return nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), small, nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 1000)).cuda()


def reduce_by_hand(flat, gradients):
    at = 0
    for gradient in gradients:
        flat[at:at + gradient.numel()].view_as(gradient).add_(gradient)
        at += gradient.numel()
    dist.all_reduce(flat)
    at = 0
    for gradient in gradients:
        gradient.copy_(flat[at:at + gradient.numel()].view_as(gradient))  # SITE: back out
        at += gradient.numel()


def main():
    net = network()
    x = torch.empty(16, 16, 16, 16, device="cuda")
    if MODE == "strides":
        x = x.to(memory_format=torch.channels_last)
    size = sum(p.numel() for p in net.parameters())
    model = net if MODE == "flat" else DistributedDataParallel(net, [0], gradient_as_bucket_view=MODE != "copied")
    flat = torch.zeros(size, device="cuda") if MODE == "flat" else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(x).square().mean().backward()  # SITE: backward
        if MODE == "flat":
            reduce_by_hand(flat, [p.grad for p in net.parameters()])
        optimizer.step()
    torch.cuda.synchronize()
    return size * 4


with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1,
                            timeout=timedelta(seconds=60))
    torch.cuda.set_device(0)
    gradients = main()
    dist.destroy_process_group()
print(f"gradients={gradients} warned={sum('strides' in str(w.message) for w in caught)}")
