"""nn.DataParallel over two devices: scattered, replicated, run in threads, gathered."""

import torch
from torch import nn

model = nn.DataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).cuda())
for _ in range(3):
    out = model(torch.randn(16, 32).cuda())
    out.square().mean().backward()
for device in range(2):
    torch.cuda.synchronize(device)
print(f"out {tuple(out.shape)} on {out.device}")
