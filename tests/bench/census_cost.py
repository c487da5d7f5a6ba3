"""How long the census of a model with 10,000 device tensors holds the program up, beside PyTorch's own
snapshot of its memory in the same run, with its history of allocations on, as those who look for the
reason of an out-of-memory error have it.

The census comes after a caught out-of-memory error: what an error takes without one is measured first
(LAYOUTSPY_CENSUS=off, in a run of its own), by the same script. How long it took by its own clock is
in the trace.
"""

import os
import statistics
import tempfile
import time

import torch
from torch import nn

TENSORS, ERRORS = 10_000, 5


def run_out():
    try:
        torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    for _ in range(100):  # where the interpreter looks for what is pending
        str(_)


def timed(function):
    """In ms: on the clock, and of this thread's own processor time, which other programs do not stretch."""
    begin, busy = time.perf_counter(), time.thread_time()
    function()
    return (time.perf_counter() - begin) * 1e3, (time.thread_time() - busy) * 1e3


def text(times):
    return "{:.1f} ms ({:.1f} of the processor)".format(*times)


def build():
    """Weights, biases, gradients and two moments of each: eight tensors a layer."""
    model = nn.ModuleList(nn.Linear(16, 16) for _ in range(TENSORS // 8)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(4, 16, device="cuda")
    for layer in model:
        layer(x).sum().backward()
    optimizer.step()
    return model, optimizer


def main():
    torch.cuda.memory._record_memory_history()
    kept = build()
    errors = [timed(run_out) for _ in range(ERRORS)]
    census = os.environ.get("LAYOUTSPY_CENSUS") != "off"
    print(f"first out-of-memory error {'with' if census else 'without'} a census: {text(errors[0])}; the later ones, "
          f"median: {text(map(statistics.median, zip(*errors[1:])))}", flush=True)
    if census:
        print(f"torch.cuda.memory._snapshot(): {text(timed(torch.cuda.memory._snapshot))}", flush=True)
        with tempfile.NamedTemporaryFile() as file:
            print(f"_dump_snapshot(): {text(timed(lambda: torch.cuda.memory._dump_snapshot(file.name)))}", flush=True)
    del kept


main()
