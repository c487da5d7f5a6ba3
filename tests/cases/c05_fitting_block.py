"""A block that another stream still uses becomes free inside the call that fails, in a segment that
another block keeps; the allocator asks the driver once more, and never looks into its own pool."""

import sys

import torch


def load(side):
    batch = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        batch[:1024].add_(1)
    batch.record_stream(side)
    return batch


def ask():
    return torch.empty(550 << 20, dtype=torch.uint8, device="cuda")  # SITE: c05 request


side = torch.cuda.Stream()
whole = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
del whole
batch = load(side)
neighbour = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
filler = torch.empty(900 << 20, dtype=torch.uint8, device="cuda")
del batch  # SITE: c05 given back
if "wait" in sys.argv:
    torch.cuda.synchronize()
try:
    ask()
    print("fits")
except torch.OutOfMemoryError:
    holes = [b["size"] for s in torch.cuda.memory_snapshot() for b in s["blocks"] if b["state"] == "inactive"]
    print(f"hole={max(holes)}")
