"""What recording costs a PyTorch program that the host holds up: kernels do nothing on the
simulated device, so that nothing hides the cost.

Blocks of 50 steps alternate inside one process between forward-only and full recording
(layoutspy_mode); the median of each pair's ratio counts. The same alternation between two
forward-only blocks is the control, and PyTorch's own memory history with Python stacks
(_record_memory_history(stacks="python")) the yardstick, both in the same run. Beside the time on the
clock stands that of the process's own threads: where cores are few the collector, another process,
takes from the one and not from the other.

Usage: torch_cost.py [--loop NAME] [--count LIBRARY]
LIBRARY is bench-count, to be run under callgrind: a few steps of each kind are counted, not timed.
"""

import argparse
import ctypes
import statistics
import time

import torch
from torch import nn

BLOCK, PAIRS, WARM_UP, COUNTED = 50, 24, 20, 5
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


def run(step, count):
    """All steps come from this line: their stacks are the same ones."""
    for _ in range(count):
        step()


def block(step):
    clock, processor = time.perf_counter(), time.process_time()
    run(step, BLOCK)
    return time.perf_counter() - clock, time.process_time() - processor


def ratio(step, off, on):
    """The medians of on/off, on the clock and of the processor, over alternating blocks; which comes
    first alternates, too."""
    ratios = []
    for pair in range(PAIRS):
        took = {}
        for switch in ((off, on) if pair % 2 else (on, off)):
            switch()
            run(step, 3)
            took[switch] = block(step)
        ratios.append([took[on][i] / took[off][i] for i in range(2)])
    off()
    return "{:.3f} ({:.3f})".format(*map(statistics.median, zip(*ratios)))


def compare(name):
    step = LOOPS[name]()
    run(step, WARM_UP)
    control = ratio(step, lambda: mode(FORWARD), lambda: mode(FORWARD))
    ours = ratio(step, lambda: mode(FORWARD), lambda: mode(FULL))
    mode(FORWARD)
    theirs = ratio(step, lambda: history(False), lambda: history(True))
    print(f"{name:12} recorded {ours}  PyTorch's history {theirs}  control {control}"
          f"  goal: {'1.10, ' if name != 'inference' else ''}below PyTorch's", flush=True)


def count(name, counter):
    step = LOOPS[name]()
    for kind, number in {"forward": FORWARD, "recorded": FULL}.items():
        mode(number)
        for part in (WARM_UP, COUNTED):
            if part == COUNTED:
                counter.bench_count_begin()
            run(step, part)
        counter.bench_count_end(f"{name} {kind}".encode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--loop", choices=LOOPS)
    parser.add_argument("--count", metavar="LIBRARY")
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.zeros(1, device="cuda")
    counter = ctypes.CDLL(given.count) if given.count else None
    for name in [given.loop] if given.loop else LOOPS:
        if counter:
            count(name, counter)
        else:
            compare(name)


if __name__ == "__main__":
    main()
