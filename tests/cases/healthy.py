"""Programs that hold memory as they should: nothing here grows, waits or overlaps without need.

Usage: healthy.py MODE
  inference  batches through a model, results to the host
  kv         a cache of keys and values, allocated once for the longest answer
  warm       shapes of eight kinds, each cached the first time that it comes up
  pieces     a model that is loaded layer by layer, then used
  prefetch   the next batch is on its way while the present one is worked on
  losses     a list of each step's loss, detached
  ema        a second set of weights that follows the first
"""

import sys

import torch
from torch import nn


def net(width=256, layers=4):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU()) for _ in range(layers)])


def batches(count, rows=64, width=256):
    host = torch.randn(rows, width).pin_memory()
    for _ in range(count):
        yield host.cuda(non_blocking=True)


def inference():
    model, results = net().cuda(), []
    with torch.no_grad():
        for batch in batches(40):
            out = model(batch)
            results.append(out.argmax(1).cpu())


def kv():
    layers, longest, width = 4, 256, 512
    keys = [torch.zeros(longest, width, device="cuda") for _ in range(layers)]
    values = [torch.zeros(longest, width, device="cuda") for _ in range(layers)]
    project = nn.Linear(width, width).cuda()
    with torch.no_grad():
        token = torch.randn(1, width).cuda()
        for position in range(128):
            for k, v in zip(keys, values):
                k[position] = project(token)[0]
                v[position] = token[0]
                weights = torch.softmax(token @ k[: position + 1].t(), 1)
                token = weights @ v[: position + 1]
            token.sum().item()


def warm():
    cache, project = {}, nn.Linear(256, 256).cuda()
    for step, batch in enumerate(batches(60)):
        size = 1 << (14 + step % 8)
        if size not in cache:
            cache[size] = torch.zeros(size, device="cuda")
        project(batch).sum()
        cache[size].mul_(1.0)


def pieces():
    layers = []
    for number in range(60):
        host = torch.randn(256, 256 + number)
        layers.append(host.cuda())
    x = torch.randn(64, 256).cuda()
    for _ in range(30):
        for weights in layers:
            x @ weights
        x.sum().item()


def prefetch():
    model = net().cuda()
    source = batches(40, rows=4096)
    following = next(source)
    for batch in source:
        present, following = following, batch
        model(present).sum()


def losses():
    model = net().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for batch in batches(60):
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())


def ema():
    model, shadow = net().cuda(), net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in batches(40):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for mine, other in zip(shadow.parameters(), model.parameters()):
                mine.lerp_(other, 0.01)


{f.__name__: f for f in (inference, kv, warm, pieces, prefetch, losses, ema)}[sys.argv[1]]()
torch.cuda.synchronize()
print("done")
