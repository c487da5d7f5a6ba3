"""Three-dimensional convolutions, with cuDNN in float32 and without in bfloat16.

Usage: c24_conv3d.py STEPS [bypassed | cudnn | unfold]
Prints the bytes of one convolution's columns.
"""

import sys

import torch
from torch import nn

STEPS, MODE = int(sys.argv[1]), sys.argv[2]
torch.set_grad_enabled(False)
conv = nn.Conv3d(16, 32, 3, padding=1).to("cuda")
half = nn.Conv3d(16, 32, 3, padding=1).to("cuda", torch.bfloat16)
x = torch.zeros(2, 16, 8, 32, 32, device="cuda")
x_half = x.to(torch.bfloat16)
image, weight = torch.zeros(2, 16, 32, 32, device="cuda"), torch.zeros(32, 16 * 9, device="cuda")


def run(layer, tensor):
    return layer(tensor)  # SITE: c24 convolution


for step in range(STEPS):
    if MODE == "unfold":
        patches = nn.functional.unfold(image, 3, padding=1)  # SITE: c24 unfold
        del patches
        out = weight @ weight.t()
        continue
    run(conv, x)
    with torch.backends.cudnn.flags(enabled=MODE == "cudnn"):
        run(half, x_half)
torch.cuda.synchronize()
print(f"columns={16 * 27 * 8 * 32 * 32 * 2}")
