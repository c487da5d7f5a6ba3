"""A multi-layer perceptron, forward and backward, with and without bias."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 128, bias=False), nn.ReLU(), nn.Linear(128, 8)).cuda()
x = torch.randn(32, 64, device="cuda", requires_grad=True)
for _ in range(5):
    loss = model(x).square().mean()
    loss.backward()
with torch.inference_mode():
    out = model(torch.randn(4, 64).cuda()).cpu()
grads = sum(p.grad is not None for p in model.parameters())
print(f"{grads} gradients, x.grad {tuple(x.grad.shape)}, out {tuple(out.shape)}")
