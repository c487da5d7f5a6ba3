"""What recording costs a PyTorch program that the host holds up: kernels do nothing on the
simulated device, so that nothing hides the cost. loops_report.py says what came of it.

Blocks of equal steps (of some 60 ms unrecorded) of six kinds take turns inside one process (layoutspy_mode): forward-only, CUPTI left
(off); forward-only with CUPTI on (cupti), since the simulated one's work is not NVIDIA's; recorded, but for CUPTI (hooks); recorded with everything on (all); forward-only with PyTorch's own
memory history with Python stacks (history: _record_memory_history(stacks="python")), the yardstick; and
forward-only once more, the control. Of each block: its time on the clock, and that of the
process's own threads, CUPTI's among them. Where cores are few the collector, another process, takes from
the one and not from the other; its time of the processor is told beside them.

Usage: torch_cost.py [--loop NAME] [--count LIBRARY]
Prints a line of JSON for each loop. LIBRARY is bench-count, to be run under callgrind: a few steps of
each kind are counted, not timed.
"""

import argparse
import ctypes
import json
import os
import time
from pathlib import Path

import torch
from torch import nn

BLOCK_S, ROUNDS, WARM_UP, COUNTED = 0.06, 20, 20, 5
FORWARD, FULL, HOOKS, CUPTI = 0, 2, 3, 4


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
    for _ in range(100):
        if layoutspy.layoutspy_mode(number) >= 0:
            return
        time.sleep(0.01)  # CUPTI cannot be left just now
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


KINDS = {
    "off": lambda: mode(FORWARD),
    "cupti": lambda: mode(CUPTI),
    "hooks": lambda: mode(HOOKS),
    "all": lambda: mode(FULL),
    "history": lambda: (mode(FORWARD), history(True)),
    "control": lambda: mode(FORWARD),
}


def block(step, steps):
    clock, processor = time.perf_counter(), time.process_time()
    run(step, steps)
    return time.perf_counter() - clock, time.process_time() - processor


def collectors_time():
    """Seconds of the processor that the collector of this process took so far; None: it was not found."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"collect" in words and str(os.getpid()).encode() in words:
                ticks = (entry / "stat").read_text().rpartition(")")[2].split()[11:13]
                return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        except OSError:
            pass  # it has just ended
    return None


def measure(name):
    """Which kind comes first alternates, too: a round is one way, the next the other."""
    step = LOOPS[name]()
    run(step, WARM_UP)
    mode(FORWARD)
    run(step, 3)
    steps = max(10, round(WARM_UP * BLOCK_S / min(block(step, WARM_UP)[1] for _ in range(5))))
    took = {kind: [] for kind in KINDS}
    for number in range(ROUNDS):
        for kind in list(KINDS)[::-1 if number % 2 else 1]:
            KINDS[kind]()
            run(step, steps // 10)
            window = [time.time_ns()]
            took[kind].append(block(step, steps))
            window.append(time.time_ns())
            if kind == "all":
                counted = window
            if kind == "history":
                history(False)
    mode(FORWARD)
    return {"loop": name, "steps": steps, "took": took, "counted": counted}


def compare(name):
    before = collectors_time()
    told = measure(name)
    after = collectors_time()
    told["collector"] = None if before is None or after is None else after - before
    told["recorded_steps"] = WARM_UP + ROUNDS * 2 * (told["steps"] + told["steps"] // 10)
    print(json.dumps(told), flush=True)


def count(name, counter):
    step = LOOPS[name]()
    for kind, number in {"forward": FORWARD, "recorded": HOOKS}.items():
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
