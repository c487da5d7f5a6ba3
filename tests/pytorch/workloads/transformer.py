"""Training steps of a two-layer TransformerEncoder, and its inference fast path."""

import torch
from torch import nn

layer = nn.TransformerEncoderLayer(d_model=64, nhead=4, dim_feedforward=128, batch_first=True)
model = nn.TransformerEncoder(layer, 2).cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(4):
    x = torch.randn(8, 16, 64).cuda()
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    out = model(x)
torch.cuda.synchronize()
print(f"4 steps, out {tuple(out.shape)}")
