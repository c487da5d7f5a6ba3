"""The cudaMallocAsync backend: CUDA's own pools in place of PyTorch's cache."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8)).cuda()
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
for _ in range(4):
    out = model(torch.randn(32, 64).cuda())
    out.sum().backward()
    with torch.cuda.stream(side):
        other = torch.empty(1 << 20, device="cuda")
        other.record_stream(main)
        del other
torch.cuda.synchronize()
torch.cuda.empty_cache()
print(f"{torch.cuda.get_allocator_backend()}, out {tuple(out.shape)}, {torch.cuda.memory_allocated() > 0}")
