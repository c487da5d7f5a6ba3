"""Growing requests under a limit for the process: with garbage_collection_threshold the allocator gives
back what is cached whenever it comes near."""

import torch

torch.cuda.set_per_process_memory_fraction(0.5)


def work(size):
    held = []
    for _ in range(6):
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))  # SITE: requested
    return held


for step in range(20):
    held = work((30 + step) << 20)
    del held
