"""A training loop that counts for itself what it asks of the device, and at ten points asks PyTorch what
it holds: a small CNN, one loader that pins and one that does not, one `.item()` per step, work on a
second stream, and a list that keeps a tensor of each step.

Usage: train.py RESULTS.json [--values]

--values prints the losses too: on a device that computes. What it prints must not depend on who
watches; the results hold addresses and do.
"""

import argparse
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pytorch"))

from snapshot import Snapshots  # noqa: E402

STEPS, BATCH, CLASSES, POINTS = 30, 16, 10, 10


class Copies:
    """What crossed at each marked line: direction, kinds, bytes, times."""

    def __init__(self):
        self.at = {}

    def count(self, marker, what, size):
        one = self.at.setdefault(marker, {}).setdefault(what, {})
        one[str(size)] = one.get(str(size), 0) + 1


def network():
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
                         nn.Linear(32 * 16 * 16, CLASSES))


def batches(pinned):
    images = torch.randn(BATCH * STEPS, 3, 32, 32)
    labels = torch.randint(0, CLASSES, (BATCH * STEPS,))
    return DataLoader(TensorDataset(images, labels), batch_size=BATCH, pin_memory=pinned)


def train(model, moments, copies):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    side, losses, kept = torch.cuda.Stream(), [], []
    for step, ((images, labels), (extra, _)) in enumerate(zip(batches(False), batches(True))):
        copies.count("images", "H2D pageable device", images.nbytes)
        images = images.to("cuda")  # SITE: images
        copies.count("labels", "H2D pageable device", labels.nbytes)
        labels = labels.to("cuda")  # SITE: labels
        copies.count("pinned", "H2D pinned device", extra.nbytes)
        extra = extra.to("cuda", non_blocking=True)  # SITE: pinned
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            mean = (extra * 2).mean()
        extra.record_stream(side)
        del extra
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        torch.cuda.current_stream().wait_stream(side)
        kept.append(torch.zeros(5000 + step, device="cuda"))  # SITE: kept
        losses.append(loss.item())  # SITE: item
        copies.count("item", "D2H device pinned", 4)
        if step % (STEPS // POINTS) == 0:
            moments.take(f"step {step}")
        mean.record_stream(torch.cuda.current_stream())
    return losses, kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results")
    parser.add_argument("--values", action="store_true")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    moments, copies = Snapshots(), Copies()
    model = network()
    for parameter in model.parameters():
        copies.count("model", "H2D pageable device", parameter.nbytes)
    model = model.to("cuda")  # SITE: model
    losses, kept = train(model, moments, copies)
    torch.cuda.synchronize()
    moments.save(given.results + ".moments")
    with open(given.results, "w") as out:
        json.dump({"copies": copies.at, "kept": [(t.data_ptr(), t.nbytes) for t in kept],
                   "points": len(moments.moments)}, out)
    print(f"{len(losses)} steps, {len(kept)} tensors kept, {len(moments.moments)} points")
    if given.values:
        print(" ".join(f"{loss:.4f}" for loss in losses))


if __name__ == "__main__":
    main()
