"""Runs that take PyTorch's own snapshot of its memory at ten moments each (tests/pytorch/snapshot.py).

Usage: python snapshots.py train|streams|graph|devices OUT.json
"""

import os
import sys
import warnings

import torch
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from snapshot import Snapshots  # noqa: E402

warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")
moments = Snapshots()


def make_model(device="cuda"):
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(16 * 16 * 16, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)


def train():
    """A training run whose batches grow, with a leak, a validation, a cache given back."""
    moments.take("start")
    model = make_model()
    moments.take("model")
    optimizer = torch.optim.Adam(model.parameters())
    kept = []
    for step, batch in enumerate((4, 16, 64)):
        images, labels = torch.randn(batch, 3, 32, 32).cuda(), torch.randint(0, 10, (batch,)).cuda()
        output = model(images)
        if step == 2:
            moments.take("forward")
        loss = nn.functional.cross_entropy(output, labels)
        loss.backward()
        if step == 2:
            moments.take("backward")
        optimizer.step()
        optimizer.zero_grad()
        kept.append(output.detach())
        moments.take(f"step {step}")
    with torch.no_grad():
        model(torch.randn(200, 3, 32, 32, device="cuda"))
        big = torch.empty(30 << 20, dtype=torch.uint8, device="cuda")
    moments.take("validated")
    del images, labels, output, loss, kept[0], big
    moments.take("deleted")
    torch.cuda.empty_cache()
    moments.take("cache emptied")


def streams():
    """Blocks of two streams, used by the other: freed, waited for, and free at last."""
    side = torch.cuda.Stream()
    model = make_model()
    moments.take("model")
    for step in range(4):
        with torch.cuda.stream(side):
            images = torch.randn(16 << step, 3, 32, 32).pin_memory().cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        images.record_stream(torch.cuda.current_stream())
        model(images).sum().backward()
        del images
        moments.take(f"step {step}, batch pending")
        scratch = torch.empty(1000, device="cuda")
        moments.take(f"step {step}, asked again")
    del scratch
    with torch.cuda.stream(side):
        torch.cuda.synchronize()
        torch.empty(1000, device="cuda")
    moments.take("synchronized")


def graph():
    """Memory of graphs, in pools of their own: captured, replayed, kept by an output, given back."""
    model = make_model()
    images = torch.randn(8, 3, 32, 32, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(images)
    torch.cuda.current_stream().wait_stream(side)
    moments.take("warm")
    first = torch.cuda.CUDAGraph()
    with torch.cuda.graph(first), torch.no_grad():
        output = model(images)
        extra = torch.zeros(1 << 20, device="cuda")
    moments.take("captured")
    first.replay()
    moments.take("replayed")
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=first.pool()):
        doubled = output * 2
        used = torch.ones(5 << 20, device="cuda")
        used.record_stream(side)
        del used
    moments.take("captured into the same pool")
    del extra
    moments.take("deleted")
    other = torch.empty(3 << 20, device="cuda")
    moments.take("allocated beside")
    second.replay()
    second.reset()
    del doubled
    moments.take("second reset")
    first.reset()
    moments.take("first reset")
    del output
    torch.cuda.empty_cache()
    moments.take("cache emptied")
    del other
    graphed = torch.cuda.make_graphed_callables(nn.Linear(32, 32).cuda(), (torch.randn(8, 32, device="cuda"),))
    graphed(torch.randn(8, 32, device="cuda"))
    moments.take("graphed callable")


def devices():
    """A model on each of two devices, and a copy between them."""
    moments.take("start")
    models = []
    for device in range(2):
        models.append(make_model(f"cuda:{device}"))
        moments.take(f"model {device}")
    for step in range(3):
        for device, model in enumerate(models):
            output = model(torch.randn(8 << step, 3, 32, 32).to(f"cuda:{device}"))
            output.sum().backward()
            moments.take(f"step {step} on {device}")
    moved = output.to("cuda:0")
    torch.cuda.synchronize()
    moments.take(f"copied {tuple(moved.shape)}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    moments.save(sys.argv[2])
    print(f"{len(moments.moments)} moments")
