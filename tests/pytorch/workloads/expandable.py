"""Segments that grow in place: sizes that grow, a cache given back, an out of memory that is caught."""

import torch
from torch import nn

kept = []
for megabytes in (1, 3, 30, 50, 120):
    kept.append(torch.zeros(megabytes << 18, device="cuda"))
    if len(kept) > 2:
        del kept[0]
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()
for _ in range(3):
    model(torch.randn(32, 64).cuda()).sum().backward()
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    kept.append(torch.ones(1 << 22, device="cuda"))
try:
    torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    caught = False
except torch.OutOfMemoryError:
    caught = True
expands = any(segment["is_expandable"] for segment in torch.cuda.memory_snapshot())
del kept
torch.cuda.empty_cache()
kept = torch.zeros(1 << 22, device="cuda")
torch.cuda.synchronize()
print(f"expandable {expands}, caught {caught}")
