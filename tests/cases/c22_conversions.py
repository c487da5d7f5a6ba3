"""A small network in 16 bits, trained.

Usage: c22_conversions.py STEPS [first | last]
"""

import sys

import torch
from torch import nn

STEPS, LAST = int(sys.argv[1]), sys.argv[2] == "last"
net = nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU())
net = net.to("cuda", torch.bfloat16)
x = torch.zeros(16, 64, 32, 32, device="cuda", dtype=torch.bfloat16)
if LAST:
    net, x = net.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)


def step():
    y = net(x)  # SITE: c22 forward
    y.backward(torch.zeros_like(y))


for _ in range(STEPS):
    step()
torch.cuda.synchronize()
print("done")
