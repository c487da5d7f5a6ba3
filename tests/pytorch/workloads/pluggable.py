"""An allocator of the user's own, from a library (tests/pytorch/pluggable.c).

Usage: python pluggable.py libpluggable.so
"""

import ctypes
import sys

import torch
from torch import nn

allocator = torch.cuda.memory.CUDAPluggableAllocator(sys.argv[1], "pluggable_alloc", "pluggable_free")
torch.cuda.memory.change_current_allocator(allocator)
model = nn.Linear(32, 32).cuda()
for _ in range(3):
    model(torch.randn(8, 32).cuda()).sum().backward()
torch.cuda.synchronize()
counted = ctypes.CDLL(sys.argv[1]).pluggable_count()
print(f"{counted > 6} {torch.cuda.get_allocator_backend()}")
