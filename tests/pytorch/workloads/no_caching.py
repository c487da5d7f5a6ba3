"""PYTORCH_NO_CUDA_MEMORY_CACHING: every tensor is a cudaMalloc of its own."""

import torch
from torch import nn

model = nn.Linear(64, 64).cuda()
for _ in range(3):
    model(torch.randn(16, 64).cuda()).sum().backward()
torch.cuda.synchronize()
print(f"3 steps, {torch.cuda.memory_reserved()} bytes reserved")
