"""Two devices: a model split over both, copies between them, tensors freed on the other's turn."""

import torch
from torch import nn

first, second = nn.Linear(32, 64).to("cuda:0"), nn.Linear(64, 8).to("cuda:1")
for _ in range(3):
    middle = first(torch.randn(16, 32).to("cuda:0"))
    out = second(middle.to("cuda:1"))
    out.sum().backward()
with torch.cuda.device(1):
    here = torch.zeros(1 << 20, device="cuda")
there = here.to("cuda:0", non_blocking=True)
there.copy_(here)
del here
for device in range(2):
    torch.cuda.synchronize(device)
print(f"{torch.cuda.device_count()} devices, out on {out.device}, copy on {there.device}")
