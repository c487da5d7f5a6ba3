"""The same steps three times in one process: recorded by layoutspy, under torch.profiler (before which
layoutspy steps aside), and recorded once more.

Usage: profiled.py cnn|transformer|inference|loader RESULTS.json

The results: when each of the three windows began and ended (CLOCK_REALTIME), and what torch.profiler
has of its own: kernels by name with their times, copies, memsets, the calls of the runtime, and what
PyTorch's allocator handed out and took back. In a window the device is idle at both ends, and the
allocator's cache is emptied first, so that each window asks the driver for the same memory.
"""

import collections
import itertools
import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, TensorDataset

WARM_UP, STEPS, CLASSES = 4, 8, 10
PAUSE_S = 0.03  # at both ends: more than two clocks differ by
REST_S = 1.0  # longer than layoutspy waits before it comes back


def images(count):
    return torch.randn(count, 3, 64, 64), torch.randint(0, CLASSES, (count,))


def network():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, CLASSES))


def cnn():
    model = network().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    batch, labels = images(32)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(
            model(batch.cuda().to(memory_format=torch.channels_last)), labels.cuda())
        loss.backward()
        optimizer.step()
        return loss.item()
    return step


def transformer():
    model = nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scaler = torch.amp.GradScaler("cuda", init_scale=2.0)  # no step overflows: all do the same work
    data, target = torch.randn(8, 64, 256), torch.randn(8, 64, 256, device="cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(data.cuda()).float(), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return step


def inference():
    model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                          nn.Linear(512, CLASSES)).cuda().eval()
    given, host = torch.zeros(64, 256, device="cuda"), torch.randn(64, 256).pin_memory()
    side = torch.cuda.Stream()
    with torch.inference_mode():
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                model(given)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            answer = model(given)

    def step():
        given.copy_(host, non_blocking=True)
        graph.replay()
        return answer.cpu()
    return step


def loader():
    data = TensorDataset(*images(64))
    pinned, pageable = (DataLoader(data, batch_size=16, pin_memory=pin) for pin in (True, False))
    model = network().cuda().eval()

    def step():
        with torch.inference_mode():
            for (images_a, labels_a), (images_b, _) in zip(pinned, pageable):
                moved = images_a.to("cuda", non_blocking=True)
                labels_a.to("cuda", non_blocking=True)
                (model(moved) + model(images_b.to("cuda"))).sum().item()
    return step


WORKLOADS = {"cnn": cnn, "transformer": transformer, "inference": inference, "loader": loader}


def run(step, count):
    for _ in range(count):
        step()


def window(step):
    """The steps, alone: [begin, end]."""
    run(step, WARM_UP)  # the device's clocks are up again
    torch.cuda.synchronize()
    with record_function("window"):
        begin = time.time_ns()
        time.sleep(PAUSE_S)
        torch.cuda.empty_cache()
        run(step, STEPS)
        torch.cuda.synchronize()
        time.sleep(PAUSE_S)
        return [begin, time.time_ns()]


def within(events):
    """What lies in the annotation `window`."""
    marks = [e for e in events if e.get("cat") == "user_annotation" and e["name"] == "window"]
    begin, end = marks[0]["ts"], marks[0]["ts"] + marks[0]["dur"]
    return [e for e in events if "ts" in e and begin <= e["ts"] <= end]


def profiler_view(path):
    kernels, calls = collections.defaultdict(list), collections.Counter()
    moved = {"gpu_memcpy": [], "gpu_memset": []}
    memory = []
    with open(path) as trace:
        events = within(json.load(trace)["traceEvents"])
    for event in events:
        kind, values = event.get("cat"), event.get("args", {})
        if kind == "kernel":
            kernels[event["name"]].append(round(event["dur"] * 1000))
        elif kind in moved:
            moved[kind].append([event["name"], values.get("bytes"), round(event["dur"] * 1000)])
        elif kind in ("cuda_runtime", "cuda_driver"):
            calls[event["name"]] += 1
        elif event["name"] == "[memory]" and values.get("Device Type") == 1:
            memory.append([values["Addr"], values["Bytes"]])
    return {"kernels": kernels, "copies": moved["gpu_memcpy"], "memsets": moved["gpu_memset"], "calls": calls,
            "memory": memory}


def main(name, results):
    torch.manual_seed(0)
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    step, windows = WORKLOADS[name](), {}
    for _ in itertools.repeat(None, WARM_UP):
        step()
    windows["ours"] = window(step)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as profiler:
        windows["profiler"] = window(step)
    profiler.export_chrome_trace(results + ".chrome")
    time.sleep(REST_S)
    windows["again"] = window(step)
    with open(results, "w") as out:
        json.dump({"windows": windows, "profiler": profiler_view(results + ".chrome")}, out)
    print(f"{name}: 3 windows of {STEPS} steps")


if __name__ == "__main__":
    main(*sys.argv[1:])
