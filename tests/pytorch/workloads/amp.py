"""Mixed precision as the tutorials write it: autocast, a gradient scaler, clipped gradients."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
dtypes = set()
for _ in range(6):
    x, target = torch.randn(32, 64).cuda(), torch.randint(0, 10, (32,)).cuda()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cuda", dtype=torch.float16):
        out = model(x)
        loss = nn.functional.cross_entropy(out, target)
    dtypes.add(out.dtype)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
torch.cuda.synchronize()
print(f"6 steps in {sorted(map(str, dtypes))}")
