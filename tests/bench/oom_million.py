#!/usr/bin/env python3
"""What `layoutspy oom` and its kin cost on a trace of a million blocks.

    tests/bench/oom_million.py [--blocks N] [--keep PATH]

Makes a trace by hand, of a training loop that ends in an out-of-memory error: each step has
temporary blocks in cached segments, and one line keeps a block per step. Prints seconds and those of
processor time (the best of three) and the peak of resident memory of each verb; LAYOUTSPY_BUILD names the build directory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from synthetic import Trace  # noqa: E402

MIB = 1 << 20
PER_STEP = 500
STEP_NS = 50_000_000
SEGMENT = 32 * MIB
SITES = 200


class Million(Trace):
    """`blocks` blocks on 8 GiB, and the error that ends it."""

    def fill(self, blocks):
        steps = max(blocks // PER_STEP, 3)
        self.steps = steps
        self.set_meta("end_ns", steps * STEP_NS + STEP_NS)
        self.fine = [self.stack(f"model.py:{i} forward", ("/x/torch/lib/libtorch_cuda.so", "/usr/bin/python3"))
                     for i in range(SITES)]
        self.kept = self.stack("train.py:40 log", ("/x/torch/lib/libtorch_cuda.so", "/usr/bin/python3"))
        self.rows = {name: [] for name in ("call", "block", "memory", "step", "allocation")}
        self.calls_made, self.reserved, self.allocated = 0, 0, 0
        self.malloc, self.report = self.api("cudaMalloc"), self.api("report")
        temporary = [self.segment(i) for i in range((PER_STEP + 31) // 32)]
        keeping, left = None, 0
        keep_bytes = 6 * 1024 * MIB // steps // 512 * 512
        for step in range(steps):
            begin = (step + 1) * STEP_NS
            self.rows["step"].append((step + 1, begin, begin + STEP_NS))
            if left < keep_bytes:
                keeping, left = self.segment(begin), SEGMENT
            left -= keep_bytes
            self.one_step(begin, temporary, keeping + SEGMENT - left - keep_bytes, keep_bytes)
            if len(self.rows["call"]) > 50_000:
                self.flush()
        self.out_of_memory((steps + 1) * STEP_NS - 1_000_000)
        self.flush()

    def set_meta(self, key, value):
        self.db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, str(value)))

    def new_call(self, start, api, stack, *fields):
        self.calls_made += 1
        self.rows["call"].append((self.calls_made, start, 500, api, stack) + (fields + (None,) * 4)[:4])
        return self.calls_made

    def segment(self, start):
        self.address += 2 * SEGMENT
        call = self.new_call(start, self.malloc, self.fine[0], self.address, SEGMENT)
        self.rows["allocation"].append((call, start, self.address, SEGMENT, self.malloc, self.fine[0], call))
        self.reserved += SEGMENT
        return self.address

    def told(self, start, stack, address, change):
        self.allocated += change
        call = self.new_call(start, self.report, stack, address, change, self.allocated, self.reserved)
        self.rows["memory"].append((call, start, self.allocated, self.reserved))
        return call

    def one_step(self, begin, temporary, keep_at, keep_bytes):
        live = []
        for i in range(PER_STEP - 1):
            start = begin + 10_000 + i * 40_000
            address = temporary[i // 32] + i % 32 * MIB
            stack = self.fine[i % SITES]
            live.append((self.told(start, stack, address, MIB), start, address, stack))
        start = begin + 30_000_000
        call = self.told(start, self.kept, keep_at, keep_bytes)
        self.rows["block"].append((call, start, None, None, keep_at, keep_bytes, self.kept, None, None))
        for i, (call, start, address, stack) in enumerate(live):
            end = begin + 31_000_000 + i * 30_000
            freed = self.told(end, stack, address, -MIB)
            self.rows["block"].append((call, start, end, end, address, MIB, stack, stack, freed))

    def out_of_memory(self, ts):
        want = 2048 * MIB
        free = 8 * 1024 * MIB - self.reserved - 300 * MIB
        first = self.new_call(ts - 3000, self.malloc, self.fine[3], 0, want)
        again = self.new_call(ts - 2000, self.malloc, self.fine[3], 0, want)
        told = self.new_call(ts - 500, self.report, self.fine[3])
        self.rows["memory"].append((told, ts, self.allocated, self.reserved))
        self.db.execute(
            "INSERT INTO oom VALUES(?, ?, 0, ?, ?, ?, ?, ?, ?, 1, 1, ?, 0, 2, ?, ?, 0, 0, 0, 0, NULL, 0, ?, ?)",
            (told, ts, want, self.allocated, self.reserved, free, 8 * 1024 * MIB, self.fine[3], want, first,
             told, self.reserved - self.allocated, SEGMENT))
        self.db.executemany("INSERT INTO oom_call VALUES(?, ?, ?, ?)",
                            [(first, told, 1, want), (again, told, 1, want), (told, told, 6, want)])

    def flush(self):
        put = self.db.executemany
        put("INSERT INTO call(id, start_ns, duration_ns, thread, api, status, flags, device, stack, f0, f1,"
            " f2, f3) VALUES(?, ?, ?, 1, ?, 0, 0, 0, ?, ?, ?, ?, ?)", self.rows["call"])
        put("INSERT INTO block VALUES(?, ?, ?, ?, 0, ?, ?, NULL, ?, ?, ?, 1, 0, 0)", self.rows["block"])
        put("INSERT INTO memory VALUES(?, ?, 0, ?, ?, NULL, NULL)", self.rows["memory"])
        put("INSERT INTO step(id, loop, source, thread, start_ns, end_ns) VALUES(?, 1, 'optimizer', 1, ?, ?)",
            self.rows["step"])
        put("INSERT INTO allocation(id, start_ns, kind, device, address, size, api, stack, start_call, holder)"
            " VALUES(?, ?, 1, 0, ?, ?, ?, ?, ?, 3)", self.rows["allocation"])
        for rows in self.rows.values():
            rows.clear()

    def api(self, name):
        if name == "report" and name not in self.apis:
            number = self.apis[name] = len(self.apis) + 1
            self.db.execute("INSERT INTO api VALUES(?, 'torch_block', 'torch', 'block', '[]')", (number,))
        return super().api(name)


def measure(command):
    """Seconds, those of processor time, and peak bytes of a child; its output must be there."""
    before = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0 and out, command
    return time.monotonic() - before, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--keep", help="leave the trace here")
    options = parser.parse_args()
    command = Path(os.environ.get("LAYOUTSPY_BUILD", ROOT / "build")) / "analyzer/layoutspy"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(options.keep or Path(folder) / "million.db")
        if not path.exists():
            with Million(path) as trace:
                trace.fill(options.blocks)
        print(f"{path.stat().st_size / MIB:.0f} MiB of trace, {options.blocks} blocks")
        for verb in (["oom"], ["oom", "--json"], ["memory"], ["memory", "--at", "oom"], ["report"]):
            runs = [measure([command, *verb, path]) for _ in range(3)]
            print(f"{' '.join(verb):16} {min(r[0] for r in runs):6.2f} s, {min(r[1] for r in runs):5.2f} of a"
                  f" processor  {max(r[2] for r in runs) / MIB:5.0f} MiB resident")


if __name__ == "__main__":
    main()
