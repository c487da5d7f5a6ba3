"""Two inference sessions in turn: the second one's arena takes a new region for each request, and
never uses an old one again.

Usage: c12_two_sessions.py REQUESTS [both | first]
  first   only the session whose arena finds its regions again
Prints the size of a region and how many requests were done.
"""

import sys

import torch

REQUESTS, MODE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "both"
REGION = 16 << 20


class Session:
    def __init__(self, reuses):
        self.weights = torch.ones(1 << 16, device="cuda")
        self.reuses = reuses
        self.regions = []

    def region(self):
        if not self.reuses or not self.regions:
            self.regions.append(torch.empty(REGION, dtype=torch.uint8, device="cuda"))  # SITE: c12 region
        return self.regions[-1]

    def run(self, request):
        work = self.region()[: 4 << 16].view(torch.float32)
        torch.mul(self.weights, request.cuda(non_blocking=True), out=work)
        return work.sum()


embedder, ranker = Session(True), Session(False)
request = torch.ones(1 << 16).pin_memory()
done = 0
try:
    for _ in range(REQUESTS):
        embedder.run(request)
        if MODE == "both":
            ranker.run(request)
        done += 1
finally:
    print(f"region_bytes={REGION} requests={done}")
