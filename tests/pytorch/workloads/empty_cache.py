"""The cache given back: after frees, between sizes, and under a limit for the process."""

import torch

reserved = []
torch.cuda.set_per_process_memory_fraction(0.9)
for size in (1 << 10, 1 << 20, 12 << 20, 40 << 20):
    tensors = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(3)]
    del tensors[1]
    reserved.append(torch.cuda.memory_reserved() >> 20)
    torch.cuda.empty_cache()
    del tensors
    torch.cuda.empty_cache()
    reserved.append(torch.cuda.memory_reserved() >> 20)
torch.cuda.reset_peak_memory_stats()
print("MiB " + " ".join(map(str, reserved)))
