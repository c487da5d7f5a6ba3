"""A training loop that empties the cache: after each step, after each epoch, or once after loading.

Usage: c19_explicit.py step | epoch | once. Prints the steps.
"""

import sys

import torch
from torch import nn

EPOCHS, STEPS = 3, 8


def net():
    return nn.Sequential(*[nn.Linear(512, 512) for _ in range(4)]).cuda()


def step(model, optimizer, images):
    loss = model(images).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def empty_after_step():
    torch.cuda.empty_cache()  # SITE: step


def empty_after_epoch():
    torch.cuda.empty_cache()  # SITE: epoch


def load(model):
    """The weights arrive on the device twice, as they do when they are read there."""
    torch.empty(64 << 20, dtype=torch.uint8, device="cuda").zero_()
    model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})


def train(way):
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    load(model)
    if way == "once":
        torch.cuda.empty_cache()
    for _ in range(EPOCHS):
        for _ in range(STEPS):
            step(model, optimizer, torch.randn(2048, 512, device="cuda"))
            if way == "step":
                empty_after_step()
        if way == "epoch":
            empty_after_epoch()
    torch.cuda.synchronize()


train(sys.argv[1])
print(f"steps={EPOCHS * STEPS}")
