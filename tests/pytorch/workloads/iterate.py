"""Loops as people write them; each iteration asks for the free memory at its begin, and nothing else
does. Prints how many there were.

Usage: python iterate.py adam | sgd | epochs | accumulate | gan | scaler | inference | tokens | nvtx
"""

import sys

import torch
from torch import nn

iterations = 0


def begin():
    global iterations
    torch.cuda.mem_get_info()
    iterations += 1


def net():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 10)).cuda()


def batch(size=4):
    return torch.randn(size, 3, 8, 8), torch.randint(0, 10, (size,))


def loss_of(model, images, labels):
    return nn.functional.cross_entropy(model(images.cuda()), labels.cuda())


def train(model, optimizer, count, sizes=(4,)):
    for i in range(count):
        begin()
        loss = loss_of(model, *batch(sizes[i % len(sizes)]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 10 == 9:
            loss.item()


def evaluate(model, count):
    with torch.no_grad():
        for _ in range(count):
            loss_of(model, *batch()).item()


def adam():
    model = net()
    train(model, torch.optim.Adam(model.parameters()), 25, sizes=(4, 6, 9))


def sgd():
    model = net()
    train(model, torch.optim.SGD(model.parameters(), lr=0.01), 25)


def epochs():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for _ in range(3):
        train(model, optimizer, 8)
        schedule.step()
        evaluate(model, 5)


def accumulate():
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    for i in range(32):
        if i % 4 == 0:
            begin()
        loss_of(model, *batch()).backward()
        if i % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def gan():
    maker, judge = nn.Linear(16, 32).cuda(), nn.Linear(32, 1).cuda()
    of_maker, of_judge = (torch.optim.Adam(m.parameters()) for m in (maker, judge))
    for _ in range(12):
        begin()
        real, noise = torch.randn(8, 32).cuda(), torch.randn(8, 16).cuda()
        of_judge.zero_grad()
        (judge(maker(noise).detach()).mean() - judge(real).mean()).backward()
        of_judge.step()
        of_maker.zero_grad()
        (-judge(maker(noise)).mean()).backward()
        of_maker.step()


def scaler():
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    scale = torch.amp.GradScaler("cuda")
    for _ in range(15):
        begin()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = loss_of(model, *batch())
        optimizer.zero_grad()
        scale.scale(loss).backward()
        scale.step(optimizer)
        scale.update()


def inference():
    model = net().eval()
    with torch.inference_mode():
        for _ in range(3):
            model(torch.randn(1, 3, 8, 8, device="cuda"))
        for _ in range(30):
            begin()
            model(torch.randn(1, 3, 8, 8).cuda()).argmax().item()


def tokens():
    embed, layers, head = nn.Embedding(50, 32).cuda(), nn.ModuleList(nn.Linear(32, 32) for _ in range(6)).cuda(), nn.Linear(32, 50).cuda()
    token = 1
    with torch.inference_mode():
        for _ in range(40):
            begin()
            x = embed(torch.tensor([token]).cuda())
            for layer in layers:
                x = torch.relu(layer(x))
            token = head(x).argmax().item() % 50


def nvtx():
    model = net()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(5):
        begin()
        images, labels = batch()
        torch.cuda.nvtx.range_push("forward")
        loss = loss_of(model, images, labels)
        torch.cuda.nvtx.range_pop()
        with torch.cuda.nvtx.range("backward"):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.cuda.nvtx.mark("done")


torch.manual_seed(0)
{f.__name__: f for f in (adam, sgd, epochs, accumulate, gan, scaler, inference, tokens, nvtx)}[sys.argv[1]]()
torch.cuda.synchronize()
print(f"{iterations} iterations")
