"""Loops that are hard to tell the iterations of; prints how many there were. Nothing marks them.

Usage: python rounds.py MODE ITERATIONS
"""

import sys

import torch
from torch import nn


def net(width=32):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)).cuda()


def one(count):
    """A copy and some work."""
    model = net()
    with torch.inference_mode():
        for _ in range(count):
            model(torch.ones(8, 32).cuda())


def pair(count):
    """Two equal copies by one line, and work."""
    model = net()
    with torch.inference_mode():
        for _ in range(count):
            a, b = torch.ones(8, 32).cuda(), torch.ones(8, 32).cuda()
            model(a + b)


def pair_bare(count):
    """Two copies of other sizes by one line, and no work."""
    images, labels = torch.ones(8, 32), torch.ones(8)
    for _ in range(count):
        images.cuda(), labels.cuda()


class Features(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Conv2d(n, 16, 3, padding=1) for n in (3, 16))
        self.head = nn.Linear(16, 10)

    def forward(self, images):
        features = torch.relu(self.first(images))
        features = torch.relu(self.second(features))
        return self.head(features.mean((2, 3)))


def sizes(count, around=False):
    """Batches of ever other sizes, so that the allocator's memory grows now and then."""
    model, loss_of = Features().cuda(), nn.functional.cross_entropy
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for i in range(count):
        images, labels = torch.zeros(4, 3, 96, 96 + i * i % 17 * 8 + i), torch.zeros(4, dtype=torch.long)
        optimizer.zero_grad()
        if around:
            loss = loss_of(model(images.cuda()), labels.cuda())
        else:
            images, labels = images.cuda(), labels.cuda()
            loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()


def pair_around(count):
    """The same; one line makes the one copy, the model's work, and then the other copy."""
    sizes(count, around=True)


def pair_spread(count):
    """Two copies by one line, and work after each."""
    model = net()
    with torch.inference_mode():
        for _ in range(count):
            model(torch.ones(8, 32).cuda()) + model(torch.ones(8, 32).cuda())


def lines(count):
    """Two copies by two lines."""
    model = net()
    with torch.inference_mode():
        for _ in range(count):
            a = torch.ones(8, 32).cuda()
            b = torch.ones(8, 32).cuda()
            model(a + b)


def growing(count):
    """What is kept makes the allocator ask for memory again and again."""
    kept = []
    x = torch.ones(64, 1024, device="cuda")
    for _ in range(count):
        kept.append(torch.relu(x))


def growing_small(count):
    """The same with blocks of which many fit into one segment."""
    kept, total = [], torch.zeros(64, 1024, device="cuda")
    for _ in range(count):
        kept.append(torch.ones(64, 512).cuda())
        total.add_(1)


def cache(count):
    """Tokens whose cache is made anew, larger by one, each time."""
    past = torch.zeros(1, 256, device="cuda")
    with torch.inference_mode():
        for _ in range(count):
            past = torch.cat([past, torch.ones(1, 256).cuda()])
            torch.relu(past).sum()


def streams(count):
    """Blocks that wait for another stream: the allocator records events and asks for them."""
    side = torch.cuda.Stream()
    for _ in range(count):
        x = torch.ones(64, 1024).cuda()
        with torch.cuda.stream(side):
            torch.relu(x)
        x.record_stream(side)
        del x


def logged(count):
    """Every fifth time a number is read."""
    model = net()
    with torch.inference_mode():
        for i in range(count):
            y = model(torch.ones(8, 32).cuda())
            if i % 5 == 4:
                y[0, 0].item()


def accumulate(count):
    """Four batches for each update, by an optimizer that shows no call of its own stack."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(count):
        for _ in range(4):
            model(torch.ones(8, 32).cuda()).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def accumulate_logged(count):
    """The same; a number is read now and then."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i in range(count):
        for _ in range(4):
            loss = model(torch.ones(8, 32).cuda()).sum()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if i % 5 == 4:
            loss.item()


def inner(count):
    """An inner loop of few rounds that copies."""
    model, total = net(), torch.zeros(8, 4, device="cuda")
    with torch.inference_mode():
        for _ in range(count):
            scale = torch.ones(8, 1).cuda()
            for _ in range(5):
                total += model(torch.ones(8, 32).cuda()) * scale


def diffusion(count):
    """An inner loop without copies, and none outside of it."""
    model = nn.Linear(32, 32).cuda()
    with torch.inference_mode():
        for _ in range(count):
            x = torch.randn(8, 32, device="cuda")
            for _ in range(20):
                x = torch.relu(model(x)) - x
            x.clamp_(0, 1)


def batches(count):
    for _ in range(count):
        yield torch.ones(8, 32).cuda(), torch.ones(8).cuda()


def generator(count):
    """The copies are made in a generator's frame."""
    model = net()
    with torch.inference_mode():
        for images, labels in batches(count):
            model(images).sum(1) - labels


torch.manual_seed(0)
globals()[sys.argv[1]](int(sys.argv[2]))
torch.cuda.synchronize()
print(f"{sys.argv[2]} iterations")
