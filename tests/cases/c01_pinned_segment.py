"""One step needs one very large temporary. In the first it gets a segment of its own; smaller tensors
that stay are then cut from that segment, and the second step's temporary finds room nowhere."""

import sys

import torch

TEMPORARY = 11_643_387_904
SIZES = (11_400_192, 16_500_224, 18_200_064)


def widen():
    scratch = torch.empty(TEMPORARY, dtype=torch.uint8, device="cuda")  # SITE: c01 temporary
    return scratch.numel()


def keep_features(kept):
    for turn in range(45):
        feature = torch.empty(SIZES[turn % 3], dtype=torch.uint8, device="cuda")  # SITE: c01 features
        if turn % 3 != 1 or turn < 6:
            kept.append(feature)


weights = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(6)]
kept = []
widen()
if "emptied" in sys.argv:
    torch.cuda.empty_cache()
keep_features(kept)
print(f"pinned={sum(t.numel() for t in kept)} blocks={len(kept)} weights={sum(t.numel() for t in weights)}")
try:
    widen()
except torch.OutOfMemoryError:
    free, total = torch.cuda.mem_get_info()
    print(f"free={free} total={total} reserved={torch.cuda.memory_reserved()}")
