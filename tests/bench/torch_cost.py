"""What recording costs a PyTorch program that the host holds up: kernels do nothing on the
simulated device, so that nothing hides the cost.

Blocks of 50 steps alternate inside one process between forward-only and full recording
(layoutspy_mode); the median of each pair's ratio counts. The same alternation between two
forward-only blocks is the control, and PyTorch's own memory history with Python stacks
(_record_memory_history(stacks="python")) the yardstick, both in the same run.

Usage: torch_cost.py [--loop NAME [--steps N --mode M]]    (the second form: for instruction counts)
"""

import argparse
import ctypes
import statistics
import time

import torch
from torch import nn

BLOCK, PAIRS, WARM_UP = 50, 12, 20
FORWARD, FULL = 0, 2


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return torch.relu(x + self.body(x))


def trainer(model, batch, target):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        loss = nn.functional.mse_loss(model(batch), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return step


def cnn():
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(),
                          nn.Linear(32 * 8 * 8, 10)).cuda()
    return trainer(model, torch.randn(8, 3, 16, 16, device="cuda"), torch.randn(8, 10, device="cuda"))


def transformer():
    model = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).cuda()
    data = torch.randn(4, 16, 64, device="cuda")
    return trainer(model, data, torch.randn(4, 16, 64, device="cuda"))


def resnet():
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), *[Residual(16) for _ in range(6)],
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).cuda()
    return trainer(model, torch.randn(4, 3, 16, 16, device="cuda"), torch.randn(4, 10, device="cuda"))


def inference():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10))
    model = model.cuda().eval()
    data = torch.randn(1, 64, device="cuda")

    def step():
        with torch.inference_mode():
            model(data)
    return step


LOOPS = {"cnn": cnn, "transformer": transformer, "resnet": resnet, "inference": inference}
layoutspy = ctypes.CDLL(None)


def mode(number):
    if layoutspy.layoutspy_mode(number) < 0:
        raise SystemExit("torch_cost: this process is not recorded (LD_PRELOAD)")


def history(on):
    if on:
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=100000)
    else:
        torch.cuda.memory._record_memory_history(enabled=None)


def block(step):
    start = time.perf_counter()
    for _ in range(BLOCK):
        step()
    return time.perf_counter() - start


def ratio(step, off, on):
    """The median of on/off over alternating blocks; which comes first alternates, too."""
    ratios = []
    for pair in range(PAIRS):
        took = {}
        for switch in ((off, on) if pair % 2 else (on, off)):
            switch()
            for _ in range(3):
                step()
            took[switch] = block(step)
        ratios.append(took[on] / took[off])
    off()
    return statistics.median(ratios)


def compare(name):
    step = LOOPS[name]()
    for _ in range(WARM_UP):
        step()
    control = ratio(step, lambda: mode(FORWARD), lambda: mode(FORWARD))
    ours = ratio(step, lambda: mode(FORWARD), lambda: mode(FULL))
    mode(FORWARD)
    theirs = ratio(step, lambda: history(False), lambda: history(True))
    print(f"{name:12} recorded {ours:.3f}  PyTorch's history {theirs:.3f}  control {control:.3f}"
          f"  (goal: {'1.10, and ' if name != 'inference' else ''}below PyTorch's)", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", choices=LOOPS)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--mode", type=int, default=FULL)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    if given.steps is None:
        for name in [given.loop] if given.loop else LOOPS:
            compare(name)
        return
    step = LOOPS[given.loop]()
    mode(given.mode)
    for _ in range(given.steps):
        step()


if __name__ == "__main__":
    main()
