"""One linear layer, used and dropped: what stays allocated is cuBLAS's workspace.

Prints the bytes that are still allocated when every tensor is gone.
"""

import torch
from torch import nn


def once():
    layer = nn.Linear(1, 1, device="cuda")
    layer(torch.ones(1, 1, device="cuda"))  # SITE: product


before = torch.cuda.memory_allocated()
once()
torch.cuda.synchronize()
print(f"bytes={torch.cuda.memory_allocated() - before}")
