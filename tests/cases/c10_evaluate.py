"""Evaluation that keeps every prediction on the device: the batches' logits are concatenated until
the data ends, or the device is full.

Usage: c10_evaluate.py BATCHES [cat | list | host | epochs]
  cat     one tensor, concatenated anew with each batch
  list    a list of tensors
  host    a list on the host: nothing grows
  epochs  training epochs with an evaluation after each, whose sums stay on the device
Prints what a batch's logits take in device memory, and how many batches were done.
"""

import sys

import torch
from torch import nn

BATCH, FEATURES, CLASSES = 64, 256, 4096
BATCHES, MODE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "cat"


def concatenate(model, batches):
    kept = None
    for batch in batches:
        with torch.no_grad():
            logits = model(batch.cuda(non_blocking=True))
        kept = logits if kept is None else torch.cat((kept, logits))  # SITE: c10 cat
        done(1)
    return kept


def collect(model, batches):
    kept = []
    for batch in batches:
        with torch.no_grad():
            kept.append(model(batch.cuda(non_blocking=True)))  # SITE: c10 list
        done(1)
    return torch.cat(kept)


def collect_on_host(model, batches):
    kept = []
    for batch in batches:
        with torch.no_grad():
            kept.append(model(batch.cuda(non_blocking=True)).cpu())
        done(1)
    return torch.cat(kept)


def epochs(model, batches):
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(4):
        for batch in batches:
            optimizer.zero_grad()
            model(batch.cuda(non_blocking=True)).square().mean().backward()
            optimizer.step()
            done(1)
        model.eval()
        total = torch.zeros((), device="cuda")
        with torch.no_grad():
            for batch in batches[:5]:
                total += model(batch.cuda(non_blocking=True)).abs().max()
        model.train()
        print("largest", total.item() >= 0)


count = 0


def done(batches):
    global count
    count += batches


model = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, CLASSES)).cuda()
batches = [torch.randn(BATCH, FEATURES).pin_memory()] * BATCHES
try:
    {"cat": concatenate, "list": collect, "host": collect_on_host, "epochs": epochs}[MODE](model, batches)
finally:
    print(f"batch_bytes={BATCH * CLASSES * 4} batches={count}")
