"""A checkpoint's optimizer state is copied to the device beside the state that is there already, and
dropped; what that took stays in the cache, and no step can use it: its pieces are too small."""

import sys

import torch

MODE = sys.argv[1]  # fresh, resumed, emptied, reused
PARAMETERS = 24
SIZE = 64 << 20


def make_state():
    return [torch.empty(SIZE, dtype=torch.uint8, device="cuda") for _ in range(2 * PARAMETERS)]


def load_checkpoint(state):
    loaded = []
    for mine in state:
        loaded.append(torch.empty_like(mine))  # SITE: c02 load
    for mine, its in zip(state, loaded):
        mine[:1024].copy_(its[:1024])


def step(batch):
    if MODE == "reused":
        pieces = [torch.empty(SIZE, dtype=torch.uint8, device="cuda") for _ in range(2 * PARAMETERS)]
        pieces[0][:1024].add_(1)
        return len(pieces)
    hidden = torch.empty(batch * (100 << 20), dtype=torch.uint8, device="cuda")
    hidden[:1024].add_(1)
    out = torch.empty_like(hidden)
    out[:1024].copy_(hidden[:1024])
    return out.numel()


state = make_state()
if MODE != "fresh":
    load_checkpoint(state)
if MODE == "emptied":
    torch.cuda.empty_cache()
print(f"reserved_before={torch.cuda.memory_reserved()} allocated_before={torch.cuda.memory_allocated()}")
for _ in range(12):
    step(5)
print(f"reserved={torch.cuda.memory_reserved()} peak={torch.cuda.max_memory_allocated()}")
