"""A training loop that goes on until the file it is told of is there."""

import os
import sys
import time

import torch
from torch import nn

from listing import listing, say

model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
losses = []


def step():
    x = torch.randn(16, 128, device="cuda")
    optimizer.zero_grad(set_to_none=False)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
    del losses[:-3]


end = time.monotonic() + 60
steps = 0
for steps in range(5):
    step()
say(**listing())
while not os.path.exists(sys.argv[1]) and time.monotonic() < end:
    step()
    steps += 1
    time.sleep(0.001)
say(done=steps > 5)
