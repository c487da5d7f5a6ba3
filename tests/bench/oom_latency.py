#!/usr/bin/env python3
"""How long after an out-of-memory error its row is in the trace, for a second process that looks into the
file all the time; beside PyTorch's own answer in the same run, its memory history and a snapshot.

    tests/bench/oom_latency.py        with PyTorch's python, not recorded; LAYOUTSPY_BUILD as elsewhere

The recorded program trains; after every few steps it asks for too much, and catches the error. Counted
from the moment when the error reaches Python. Both clocks are the machine's.
"""

import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ERRORS, STEPS, GOAL_MS = 30, 20, 50


def target():
    import torch
    from torch import nn

    model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(8)]).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(64, 128, device="cuda")
    torch.cuda.memory._record_memory_history(stacks="python", max_entries=1_000_000)
    for number in range(ERRORS):
        for _ in range(STEPS if number % 2 else 0):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        try:
            torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            print("error", time.monotonic(), flush=True)
        if number % 2 == 0:
            time.sleep(0.1)
    with tempfile.NamedTemporaryFile() as file:
        for name, take in (("snapshot", torch.cuda.memory._snapshot),
                           ("dump", lambda: torch.cuda.memory._dump_snapshot(file.name))):
            begin = time.monotonic()
            take()
            print(name, time.monotonic() - begin, flush=True)


def rows(path):
    """How many out-of-memory errors the trace tells of; 0 while there is none."""
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=1)
        try:
            return db.execute("SELECT COUNT(*) FROM oom WHERE recovered = 0").fetchone()[0]
        finally:
            db.close()
    except sqlite3.Error:
        return 0


def main():
    build = Path(os.environ.get("LAYOUTSPY_BUILD") or ROOT / "build").resolve()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.db"
        env = dict(os.environ, LAYOUTSPY_BUILD=str(build), LAYOUTSPY_OUT=str(path), STANDIN_DELAY_US="0",
                   LD_PRELOAD=str(build / "preload" / "liblayoutspy.so"))
        with open(Path(folder) / "said", "w+") as said:
            child = subprocess.Popen([str(ROOT / "tests/standin/on-standin"), "--memory", "2G", sys.executable,
                                      os.path.abspath(__file__), "--target"], env=env, stdout=said)
            seen = []
            while child.poll() is None:
                count = rows(path)
                seen += [time.monotonic()] * (count - len(seen))
                time.sleep(0.001)
            said.seek(0)
            words = [line.split() for line in said]
        if child.returncode != 0:
            raise SystemExit(f"oom_latency: the program ended with {child.returncode}")
    errors = [float(value) for name, value in words if name == "error"]
    took = {name: float(value) * 1e3 for name, value in words}
    late = [(there - error) * 1e3 for there, error in zip(seen, errors)]
    if not len(seen) == len(errors) == ERRORS:
        raise SystemExit(f"oom_latency: {len(errors)} errors, {len(seen)} rows")
    for name, part in (("at rest", late[0::2]), ("in a loop", late[1::2])):
        print(f"out of memory to its row in the trace, {name}: median {statistics.median(part):.1f} ms, "
              f"most {max(part):.1f} ms  goal: {GOAL_MS} ms")
    print(f"PyTorch's answer, with its memory history on: _snapshot() {took['snapshot']:.1f} ms, "
          f"_dump_snapshot() {took['dump']:.1f} ms")


if "--target" in sys.argv:
    target()
else:
    main()
