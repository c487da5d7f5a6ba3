"""What `layoutspy info` and `report` say of the GPU's work, on traces made by hand."""

import sqlite3

import pytest

from synthetic import Trace


def info(harness, path):
    return harness.layoutspy("info", path).out


@pytest.fixture
def path(harness):
    return harness.folder / "t.db"


def test_no_gpu_times(harness, path):
    with Trace(path) as trace:
        trace.kernel(10)
        trace.coverage("cupti", "off", "another profiler has it")
    assert "GPU times  no: another profiler has it\n" in info(harness, path)


def test_nothing_said(harness, path):
    Trace(path).close()
    assert "GPU times  no: CUPTI told of no work\n" in info(harness, path)


def test_gpu_times(harness, path):
    with Trace(path) as trace:
        trace.kernel(10)
        trace.meta("gpu_clock_pairs", 12)
        trace.meta("gpu_clock_error_ns", 1200)
        trace.db.execute("INSERT INTO kernel VALUES(1, '_Z1kv', 'k()', 'k')")
        trace.db.execute("INSERT INTO kernel_total VALUES(1, 0, 7, 0, 3500, 12, 7000000, 1, 5)")
        trace.db.executemany("INSERT INTO gpu_count VALUES(?, ?, ?, ?)",
                             [("kernel", "matched", 3400, 6000000), ("kernel", "graph", 100, 1000000),
                              ("kernel", "invalid", 12, 0), ("copy", "matched", 1, 3000000)])
        trace.db.execute("INSERT INTO gpu_work(kind, status, start_ns, end_ns, call) VALUES(1, 1, 20, 30, 1)")
        trace.db.executemany("INSERT INTO gpu_state(ts_ns, state, detail) VALUES(?, ?, ?)",
                             [(5, 1, ""), (1000, 2, "another CUPTI client"), (2001000, 1, "")])
    lines = [line for line in info(harness, path).splitlines() if line.strip()]
    at = next(n for n, line in enumerate(lines) if line.startswith("GPU times"))
    assert lines[at:at + 5] == [
        "GPU times  yes, within 1.20 us of the host's clock",
        "           copy        3.00 ms in all: 1 matched",
        "           kernel      7.00 ms in all: 3,400 matched, 100 graph, 12 invalid",
        "           without CUPTI for 2.00 ms, in 1 stretch: another CUPTI client",
        "           1 of 3,512 runs of kernels have rows of their own; all are in kernel_total (1 row)",
    ]
    assert "gpu_clock" not in "\n".join(lines)
    db = sqlite3.connect(path)
    assert db.execute("SELECT short, count, untimed, share FROM gpu_time").fetchall() == [("k", 3500, 12, 0.7)]
    assert db.execute("SELECT status, launch_ns, queued_ns FROM kernel_run").fetchall() == [("matched", 10, -990)]


@pytest.mark.parametrize("verb", ["info", "report"])
def test_coverage(harness, path, verb):
    with Trace(path) as trace:
        trace.coverage("kernels", "partial", "2 of 3 runs have rows of their own")
    assert "kernels        partial     2 of 3 runs" in harness.layoutspy(verb, path).out
