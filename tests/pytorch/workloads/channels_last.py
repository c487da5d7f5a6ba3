"""A convolution network in channels_last, in half precision, and the conversions around it."""

import torch
from torch import nn

model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2))
model = model.cuda().half().to(memory_format=torch.channels_last)
x = torch.randn(4, 3, 32, 32).to("cuda", torch.half).to(memory_format=torch.channels_last)
for _ in range(3):
    y = model(x)
    y.float().mean().backward()
back = y.contiguous()
mixed = model(x.contiguous())
torch.cuda.synchronize()
print(f"{y.is_contiguous(memory_format=torch.channels_last)} {back.is_contiguous()} {tuple(mixed.shape)}")
