"""torch.compile with the backends that need no code generator: eager, aot_eager, cudagraphs."""

import logging

import torch
from torch import nn

# "triton not found", with the time of day
logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)

ran = []
for backend in ("eager", "aot_eager", "cudagraphs"):
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
    fast = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        out = fast(torch.randn(8, 16, device="cuda"))
        out.square().mean().backward()
        optimizer.step()
    ran.append(f"{backend} {tuple(out.shape)}")
torch.cuda.synchronize()
print(", ".join(ran))
