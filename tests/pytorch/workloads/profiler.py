"""torch.profiler with CUDA activities around a few steps, with memory and stacks."""

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

model = nn.Linear(32, 32).cuda()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, with_stack=True) as prof:
    for _ in range(3):
        with record_function("step"):
            model(torch.randn(8, 32).cuda()).sum().backward()
    torch.cuda.synchronize()
steps = sum(e.count for e in prof.key_averages() if e.key == "step" and e.device_type.name == "CPU")
model(torch.randn(8, 32, device="cuda"))
torch.cuda.synchronize()
print(f"{steps} steps profiled")
