"""Two hundred out-of-memory errors in a row, each caught."""

import torch

from listing import run_out

kept = torch.ones(1000, device="cuda")
before = torch.cuda.memory_allocated()
for _ in range(200):
    run_out()
print(torch.cuda.memory_allocated() - before)
