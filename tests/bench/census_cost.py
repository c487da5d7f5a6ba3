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
    begin = time.perf_counter()
    function()
    return (time.perf_counter() - begin) * 1e3


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
    print(f"out-of-memory error {'with' if census else 'without'} a census: first {errors[0]:.1f} ms, "
          f"median {statistics.median(errors):.1f} ms", flush=True)
    if census:
        snapshots = [timed(torch.cuda.memory._snapshot) for _ in range(3)]
        with tempfile.NamedTemporaryFile() as file:
            dumps = [timed(lambda: torch.cuda.memory._dump_snapshot(file.name)) for _ in range(3)]
        print(f"torch.cuda.memory._snapshot() {statistics.median(snapshots):.1f} ms, "
              f"_dump_snapshot() {statistics.median(dumps):.1f} ms", flush=True)
    del kept


main()
