"""Recomputed activations, and a model saved, loaded onto the CPU, and loaded onto the device."""

import io

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(3)).cuda()
for _ in range(2):
    x = torch.randn(8, 32, device="cuda", requires_grad=True)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=False)
    x.sum().backward()
saved = io.BytesIO()
torch.save(blocks.state_dict(), saved)
where = []
for target in ("cpu", "cuda"):
    saved.seek(0)
    state = torch.load(saved, map_location=target)
    where.append(next(iter(state.values())).device.type)
    blocks.load_state_dict(state)
torch.cuda.synchronize()
print(f"{len(saved.getvalue()) > 1000} {where}")
