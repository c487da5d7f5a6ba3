"""Pinned memory in every form people get it: pin_memory, empty(pin_memory), resize, copies both ways."""

import torch

down = torch.empty(1 << 16, pin_memory=True)
up = torch.randn(1 << 16).pin_memory()
for _ in range(3):
    device = up.to("cuda", non_blocking=True)
    down.copy_(device, non_blocking=True)
    torch.cuda.current_stream().synchronize()
plain = device.cpu()
value = device[5].item()
rows = device.view(256, 256)[::2, ::4].cpu()
back = torch.randn(256, 64).t().to("cuda")
torch.cuda.synchronize()
print(f"{down.is_pinned()} {plain.is_pinned()} {type(value).__name__} {tuple(rows.shape)} {tuple(back.shape)}")
