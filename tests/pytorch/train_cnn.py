"""A small CNN, 20 training steps, written as people write it, with three things to find: each step
sends one unpinned batch, one tensor is kept for ever, and an extension loses a buffer.

Usage: python train_cnn.py [libplugin.so]      (the extension: tests/apps/plugin.c)
"""

import ctypes
import sys

import torch
from torch import nn

STEPS, BATCH, CLASSES = 20, 16, 10


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Linear(32 * 8 * 8, CLASSES)

    def forward(self, images):
        return self.classifier(self.features(images).flatten(1))


def step(model, optimizer, images, labels):
    images = images.to("cuda")
    labels = labels.to("cuda")
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


def main():
    torch.manual_seed(0)
    model = SmallCnn().to("cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = None
    for number in range(STEPS):
        images = torch.randn(BATCH, 3, 32, 32)
        labels = torch.randint(0, CLASSES, (BATCH,))
        loss = step(model, optimizer, images, labels)
        if number == 3:
            kept = torch.zeros(1 << 20, device="cuda")
    if len(sys.argv) > 1:
        ctypes.CDLL(sys.argv[1]).plugin_run(5)
    torch.cuda.synchronize()
    print(f"{STEPS} steps, loss on {loss.device.type}, {kept.numel()} numbers kept")


if __name__ == "__main__":
    main()
