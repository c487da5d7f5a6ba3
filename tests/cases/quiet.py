"""Loops as they should be: the batches are on the device or come from page-locked memory, nothing is
kept, nothing is given back.

Usage: quiet.py cnn | transformer | resnet | inference | amp | graph | loader | sizes | epochs
The first four are those of ../bench/torch_cost.py. Prints the steps.
"""

import sys
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))

import torch_cost  # noqa: E402

STEPS = 60


def net():
    return nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, 10)).cuda()


def train(model, optimizer, batch, target):
    loss = nn.functional.cross_entropy(model(batch), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def amp():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    scaler = torch.amp.GradScaler("cuda")
    batch, target = torch.randn(32, 64, device="cuda"), torch.zeros(32, dtype=torch.long, device="cuda")
    for _ in range(STEPS):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(batch), target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def graph():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch, target = torch.randn(32, 64, device="cuda"), torch.zeros(32, dtype=torch.long, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            train(model, optimizer, batch, target)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        train(model, optimizer, batch, target)
    for _ in range(STEPS):
        captured.replay()


def loader():
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * 8, 64), torch.zeros(STEPS * 8, dtype=torch.long))
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    for batch, target in torch.utils.data.DataLoader(data, batch_size=8, pin_memory=True):
        train(model, optimizer, batch.to("cuda", non_blocking=True), target.to("cuda", non_blocking=True))


def sizes():
    """Sequences of many lengths, the longest first."""
    model = nn.LSTM(32, 32, batch_first=True).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for number in range(STEPS):
        length = 64 if number == 0 else 8 + number * 29 % 56
        optimizer.zero_grad()
        model(torch.randn(8, length, 32, device="cuda"))[0].square().mean().backward()
        optimizer.step()


def epochs():
    """Training and validation in turns, with a running mean and a checkpoint on the host."""
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    batch, target = torch.randn(32, 64, device="cuda"), torch.zeros(32, dtype=torch.long, device="cuda")
    for _ in range(4):
        total = torch.zeros((), device="cuda")
        for _ in range(STEPS // 4):
            total += train(model, optimizer, batch, target).detach()
        with torch.no_grad():
            for _ in range(5):
                model(batch).argmax(1)
        torch.cuda.synchronize()


def main(name):
    if name in torch_cost.LOOPS:
        torch_cost.run(torch_cost.LOOPS[name](), STEPS)
    else:
        {f.__name__: f for f in (amp, graph, loader, sizes, epochs)}[name]()
    torch.cuda.synchronize()
    print(f"steps={STEPS}")


torch.manual_seed(0)
main(sys.argv[1])
