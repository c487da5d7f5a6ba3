"""Loops that hold nothing longer than they need it, and an out-of-memory error that has another cause in
the middle of one of their steps. argv[1]: train, generate (with a cache of keys and values, of which slices
are in use), or pyramid (a list of each layer's outputs, of which one position is used)."""

import sys

import torch
from torch import nn

HOW, STEPS, MIB = sys.argv[1], 14, 1 << 20
torch.cuda.mem_get_info()


def run_out():
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    return sum(len(str(n)) for n in range(1000))


def train():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(256, 4, 512, batch_first=True), 4).cuda()
    head = nn.Linear(256, 10).cuda()
    optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()])
    losses = []
    for step in range(STEPS):
        x = torch.randn(64, 64, 256, device="cuda")
        hidden = model(x)
        first = hidden[:, 0]
        query, key, value = hidden.chunk(3, 1)[:3]
        loss = head(first).square().mean() + (query.mean() + value.mean()) * 0
        if step == STEPS - 2:
            run_out()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


@torch.no_grad()
def generate():
    layers = nn.ModuleList(nn.Linear(256, 3 * 256) for _ in range(4)).cuda()
    keys = torch.zeros(4, 64, 512, 256, device="cuda")
    values = torch.zeros_like(keys)
    x = torch.randn(64, 1, 256, device="cuda")
    for token in range(STEPS * 4):
        for n, layer in enumerate(layers):
            query, key, value = layer(x).chunk(3, -1)
            keys[n, :, token:token + 1] = key
            values[n, :, token:token + 1] = value
            used_keys, used_values = keys[n, :, :token + 1], values[n, :, :token + 1]
            x = x + nn.functional.scaled_dot_product_attention(query, used_keys, used_values)
            if token == STEPS * 3 and n == 2:
                run_out()


def pyramid():
    layers = nn.ModuleList(nn.Linear(512, 512) for _ in range(12)).cuda()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.01)
    for step in range(STEPS):
        x = torch.randn(2048, 512, device="cuda")
        outputs, last = [], []
        for layer in layers:
            x = torch.relu(layer(x))
            outputs.append(x)
            last.append(x[:, -1])
        del x, outputs
        if step == STEPS - 2:
            run_out()
        loss = sum(part.mean() for part in last)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


{"train": train, "generate": generate, "pyramid": pyramid}[HOW]()
