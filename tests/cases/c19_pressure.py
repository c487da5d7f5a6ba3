"""A loop that works on two streams near the memory's limit: what one stream's cache holds is of no use
to the other, so each of its requests fails first, and is served after the cache was given back.

Prints the steps, and how often PyTorch itself says that it had to retry.
"""

import torch
from torch import nn

STEPS, BYTES = 10, 600 << 20


def scratch():
    torch.empty(BYTES, dtype=torch.uint8, device="cuda").zero_()  # SITE: requested


def train():
    model = nn.Linear(64, 64).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    side = torch.cuda.Stream()
    for _ in range(STEPS):
        model(torch.randn(16, 64, device="cuda")).square().mean().backward()
        scratch()
        with torch.cuda.stream(side):
            scratch()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


train()
print(f"steps={STEPS} retries={torch.cuda.memory_stats()['num_alloc_retries']}")
