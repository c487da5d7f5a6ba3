"""Training on images of ever other sizes: whenever a batch is larger than all before, the allocator
asks the device for more, and keeps it. What is live between steps stays the same.

Usage: c06_image_sizes.py STEPS [outlier | steady | warm]
  outlier  the last batch is far larger than any before
  steady   all batches are of one size
  warm     the largest batch comes first
Prints the steps (from 0) whose batch was larger than all before, and the sizes of the batches.
"""

import random
import sys

import torch
from torch import nn

STEPS, MODE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "outlier"


def sides():
    """Widths of the batches: they vary, and their maximum climbs now and then."""
    chance = random.Random(5)
    wide = [chance.randrange(96, 160) // 8 * 8 for _ in range(STEPS)]
    for number, step in enumerate(range(STEPS // 8, STEPS - 1, STEPS // 6)):
        wide[step] = 192 + 40 * number
    if MODE == "outlier":
        wide[-1] = 1600
    elif MODE == "warm":
        wide[0] = 480
    return [128] * STEPS if MODE == "steady" else wide


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 16, 3, padding=1)
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        features = torch.relu(self.first(images))  # SITE: c06 first
        features = torch.relu(self.second(features))  # SITE: c06 second
        return self.head(features.mean((2, 3)))


model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
records, largest = [], 0
for step, side in enumerate(sides()):
    if side > largest:
        largest = side
        records.append(step)
        print(f"record step {step} side {side}", flush=True)
    images = torch.zeros(4, 3, side, side).pin_memory().cuda(non_blocking=True)
    labels = torch.zeros(4, dtype=torch.long).pin_memory().cuda(non_blocking=True)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
print(f"records={len(records)}")
