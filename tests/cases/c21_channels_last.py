"""Convolutions of 7 x 7 images, many channels, in one layout or another.

Usage: c21_channels_last.py STEPS MODE
  first         float32, all channels first
  last          float32, model and input channels last
  last_half     bfloat16, the same
  filter_last   float32, the model channels last, the input not
  normalised    bfloat16, channels last, a GroupNorm between the convolutions
  two_models    bfloat16, channels last, a GroupNorm after the last convolution; then another
                model, smaller, that is channels last, too, its input not
"""

import sys

import torch
from torch import nn

STEPS, MODE = int(sys.argv[1]), sys.argv[2]
DTYPE = torch.bfloat16 if MODE in ("last_half", "normalised", "two_models") else torch.float32
torch.set_grad_enabled(False)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(256, 256, 3, padding=1)
        self.norm = nn.GroupNorm(8, 256) if MODE == "normalised" else nn.Identity()
        self.second = nn.Conv2d(256, 256, 3, padding=1)

    def forward(self, x):
        x = self.first(x)  # SITE: c21 first
        x = self.norm(x)  # SITE: c21 norm
        return self.second(x)  # SITE: c21 second


net = Net().to("cuda", DTYPE)
x = torch.zeros(32, 256, 7, 7, device="cuda", dtype=DTYPE)
if MODE != "first":
    net = net.to(memory_format=torch.channels_last)
if MODE in ("last", "last_half", "normalised", "two_models"):
    x = x.to(memory_format=torch.channels_last)
other = nn.Conv2d(128, 128, 3, padding=1).to("cuda", DTYPE).to(memory_format=torch.channels_last)
small = torch.zeros(32, 128, 7, 7, device="cuda", dtype=DTYPE)
last_norm = nn.GroupNorm(8, 256).to("cuda", DTYPE)
for step in range(STEPS):
    y = net(x + 1 if MODE == "filter_last" else x)
    if MODE == "two_models":
        y = last_norm(y)  # SITE: c21 last norm
        z = other(small + 1)  # SITE: c21 other
torch.cuda.synchronize()
print("done")
