"""A training loop with what people's training loops have: a list that keeps tensors, a loader that
does not pin, and one `.item()` per step. Tests ask the trace for the marked lines.

Usage: python train.py kept.json     (writes the address and size of every tensor that was kept)
"""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, IMAGES, BATCH, CLASSES = 3, 64, 8, 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16 * 16, CLASSES)
        self.seen = []

    def forward(self, images):
        features = torch.relu(self.conv(images)).flatten(1)
        self.seen.append(features.detach().mean(0))  # SITE: train keep in forward
        return self.head(features)


def log_output(history, output):
    history.append(output.detach().clone())  # SITE: train keep


def train_epoch(model, loader, optimizer, history):
    total = 0.0
    for images, labels in loader:
        images = images.to("cuda", non_blocking=True)  # SITE: train images
        labels = labels.cuda()  # SITE: train labels
        optimizer.zero_grad()
        output = model(images)
        loss = nn.functional.cross_entropy(output, labels)
        loss.backward()
        optimizer.step()
        log_output(history, output)
        total += loss.item()  # SITE: train item
    return total / len(loader)


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(IMAGES, 3, 16, 16), torch.randint(0, CLASSES, (IMAGES,)))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    model = Net().to("cuda")  # SITE: train model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    history = []
    for _ in range(EPOCHS):
        train_epoch(model, loader, optimizer, history)
    torch.cuda.synchronize()
    with open(sys.argv[1], "w") as out:
        json.dump({"keep": [(t.data_ptr(), t.nbytes) for t in history],
                   "keep in forward": [(t.data_ptr(), t.nbytes) for t in model.seen]}, out)
    print(f"{EPOCHS * len(loader)} steps, {len(history) + len(model.seen)} tensors kept")


if __name__ == "__main__":
    main()
