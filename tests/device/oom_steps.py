"""Takes the device's memory in three steps, of which the last has no room, and dies of it.

Usage: oom_steps.py SIZES.json

The sizes of the steps: read from there where it exists, so that two runs ask for the same; else
40 %, 35 % and 40 % of what is free, and written there. What the memory holds is never touched.
"""

import json
import os
import sys

import torch

SHARES, PIECE = (40, 35, 40), 2 << 20


def sizes(path):
    if not os.path.exists(path):
        free, _ = torch.cuda.mem_get_info()
        with open(path, "w") as out:
            json.dump([free * share // 100 // PIECE * PIECE for share in SHARES], out)
    with open(path) as given:
        return json.load(given)


def load_weights(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")  # SITE: weights


def grow_cache(cache, size):
    for _ in range(5):
        cache.append(torch.empty(size // 5, dtype=torch.uint8, device="cuda"))  # SITE: cache


def ask_for_more(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")  # SITE: more


def main(path):
    first, second, third = sizes(path)
    cache = []
    weights = load_weights(first)
    grow_cache(cache, second)
    print(f"holds {len(cache) + 1} tensors", flush=True)
    more = ask_for_more(third)
    print(len(weights) + len(more))


if __name__ == "__main__":
    main(sys.argv[1])
