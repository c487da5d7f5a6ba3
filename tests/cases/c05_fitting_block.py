"""A block that another stream still uses becomes free inside the call that fails, in a segment that
another block keeps; the allocator asks the driver once more, and never looks into its own pool."""

import sys

import torch


def load(home, side):
    """Made on one stream, used on another."""
    with torch.cuda.stream(home):
        batch = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
    with torch.cuda.stream(side):
        batch[:1024].add_(1)
    batch.record_stream(side)
    return batch


def ask():
    return torch.empty(550 << 20, dtype=torch.uint8, device="cuda")  # SITE: c05 request


main, side = torch.cuda.current_stream(), torch.cuda.Stream()
home, user = (side, main) if "theirs" in sys.argv else (main, side)
with torch.cuda.stream(home):
    whole = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    del whole
    neighbour = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
batch = load(home, user)
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
