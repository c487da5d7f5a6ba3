"""Out of memory, caught, once plainly and once with a cache to give back first, and life after it."""

import torch

held = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(6)]
caught = 0
for size in (2 << 30, 700 << 20):
    try:
        torch.empty(size, dtype=torch.uint8, device="cuda")  # SITE: oom asked
    except torch.OutOfMemoryError as error:
        caught += "out of memory" in str(error)
del held[3:]
after = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
print(f"{caught} caught, {torch.cuda.memory_allocated() >> 20} MiB held, {after.numel() >> 20} MiB since")
