"""Work with torch.profiler in it, in one of several ways, and what it was told on stdout: names, kinds and counts.

    profiled_steps.py once|twice|schedule|first|nested_off
"""

import collections
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile, schedule

REST_S = 0.8  # longer than layoutspy waits before it comes back


def work(device, rows):
    """Copies of `rows` floats to the device, by which the trace tells what was when, and kernels."""
    on_device = torch.ones(rows).to(device)  # pageable: PyTorch asks of pinned memory as time will have it
    for _ in range(5):
        on_device = on_device * 2 + 1
    on_device.sum().item()
    torch.cuda.synchronize()


def show(name, profiler):
    """Times and ids differ from run to run; all else must not."""
    counts = collections.Counter((str(event.device_type()), event.name()) for event in
                                 profiler.profiler.kineto_results.events())
    for (kind, what), count in sorted(counts.items()):
        print(name, kind, what, count)
    gpu = [event for event in profiler.profiler.kineto_results.events() if "CUDA" in str(event.device_type())]
    print(name, "on the GPU", len(gpu), "timed", sum(event.duration_ns() > 0 for event in gpu))


def profiled(name, device, rows, **how):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], **how) as profiler:
        work(device, rows)
    show(name, profiler)


def scheduled(device):
    def ready(profiler):
        show(f"cycle {profiler.step_num}", profiler)

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
                 schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=ready) as profiler:
        for step in range(9):
            work(device, 20000 + step)
            profiler.step()


def main(how):
    device = torch.device("cuda")
    if how != "first":
        work(device, 10000)
        time.sleep(REST_S)
    if how == "schedule":
        scheduled(device)
    else:
        profiled("session 1", device, 20000)
    time.sleep(REST_S)
    work(device, 10001)
    time.sleep(REST_S)
    if how == "twice":
        profiled("session 2", device, 20000)
        time.sleep(REST_S)
        work(device, 10002)
        time.sleep(REST_S)


main(sys.argv[1])
