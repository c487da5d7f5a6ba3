"""`layoutspy memory`: the timeline, and what is live at a moment, against traces made by hand."""

import json
import subprocess

import pytest

from cli import INPUT, OK, OUTPUT, USAGE, layoutspy, one_line
from harness import app
from synthetic import Trace

MIB = 1 << 20
SECOND = 1_000_000_000


def told(path, *options):
    result = layoutspy("memory", "--json", *options, path)
    assert result.returncode == OK and result.stderr == "", result.stderr
    return json.loads(result.stdout)["devices"]


def shown(path, *options):
    result = layoutspy("memory", *options, path)
    assert result.returncode == OK and result.stderr == "", result.stderr
    return result.stdout


@pytest.fixture
def path(tmp_path):
    """Five steps of a second from 1 s on: 10 MiB kept in each, 40 used for half of it, of which the
    last waits for another stream until the end; an error in the fourth."""
    path = tmp_path / "t.db"
    with Trace(path, run_ns=7 * SECOND, app="python train.py") as t:
        kept = t.segment(64 * MIB, 10, site="train.py:9 log")
        used = t.segment(40 * MIB, SECOND + 5, site="train.py:7 forward")
        t.segment(20 * MIB, 2 * SECOND + 7, 3 * SECOND + 7, site="train.py:5 warm")
        for i in range(5):
            begin = (i + 1) * SECOND
            t.step(begin, begin + SECOND)
            t.block(kept + 10 * i * MIB, 10 * MIB, begin + 10, site="train.py:9 log")
            t.block(used, 40 * MIB, begin + 20, begin + SECOND // 2, free=None if i == 4 else "at its end",
                    site="train.py:7 forward")
        t.db.execute("INSERT INTO memory VALUES(1, 5, 0, NULL, NULL, 0, ?)", (256 * MIB,))
        t.oom(100 * MIB, 4 * SECOND + 100, site="train.py:8 forward")
    return path


# --- timeline ---------------------------------------------------------------------------------

def test_timeline(path):
    device, = told(path)
    assert (device["device"], device["capacity"], device["by_step"]) == (0, 256 * MIB, True)
    assert device["peak"] == {"ts_ns": 5 * SECOND + 20, "bytes": 90 * MIB}
    assert device["peak_reserved"] == {"ts_ns": 2 * SECOND + 7, "bytes": 124 * MIB}
    rows = [(r["step"], r["ts_ns"] // SECOND, r["allocated"] // MIB, r["reserved"] // MIB, r["pending"], r["gap"] // MIB,
             r["peak"] // MIB) for r in device["timeline"]]
    assert rows == [(None, 0, 0, 0, 0, 0, 0), (1, 1, 0, 64, 0, 64, 50), (2, 2, 10, 104, 0, 94, 60),
                    (3, 3, 20, 124, 0, 104, 70), (4, 4, 30, 104, 0, 74, 80), (5, 5, 40, 104, 0, 64, 90)]
    assert [m["what"] for m in device["moments"]] == ["peak", "end"]
    assert device["moments"][1]["pending"] == 40 * MIB


def test_points(path):
    rows = told(path, "--points", 3)[0]["timeline"]
    assert [(r["step"], r["peak"] // MIB) for r in rows] == [(None, 0), (1, 70), (4, 90)]
    assert len(told(path, "--points", 1000)[0]["timeline"]) == 6


def test_without_steps(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path, run_ns=1000) as t:
        t.alloc("device", MIB, 100, 300, site="a.c:1 first")
        t.alloc("device", 2 * MIB, 250, site="a.c:2 second")
    device, = told(path, "-p", 4)
    assert not device["by_step"] and not device["framework"]
    rows = [(r["ts_ns"], r["allocated"] // MIB, r["peak"] // MIB, r["step"]) for r in device["timeline"]]
    assert rows == [(0, 0, 1, None), (250, 3, 3, None), (500, 2, 2, None), (750, 2, 2, None)]
    assert device["peak_reserved"]["bytes"] == device["peak"]["bytes"] == 3 * MIB
    text = shown(path)
    assert "what the program asked of CUDA itself" in text and "reserved" not in text


def test_text(path):
    lines = shown(path).splitlines()
    begin = lines.index("Device 0, of 256 MiB, blocks of a framework's allocator.")
    assert "\n".join(lines[begin:]) == """\
Device 0, of 256 MiB, blocks of a framework's allocator.
  most allocated: 90.0 MiB after 5.00 s, in step 5
  most reserved:  124 MiB after 2.00 s, in step 2
          from    step   allocated    reserved     pending         gap        peak
          0 ns       -     0 bytes     0 bytes     0 bytes     0 bytes     0 bytes
        1.00 s       1     0 bytes    64.0 MiB     0 bytes    64.0 MiB    50.0 MiB
        2.00 s       2    10.0 MiB     104 MiB     0 bytes    94.0 MiB    60.0 MiB
        3.00 s       3    20.0 MiB     124 MiB     0 bytes     104 MiB    70.0 MiB
        4.00 s       4    30.0 MiB     104 MiB     0 bytes    74.0 MiB    80.0 MiB
        5.00 s       5    40.0 MiB     104 MiB     0 bytes    64.0 MiB    90.0 MiB
Segments when the most was allocated (5.00 s, in step 5):
     segment       live largest hole blocks     oldest  who pins it
    64.0 MiB   50.0 MiB     14.0 MiB      5     4.00 s  train.py:9 log
    40.0 MiB   40.0 MiB      0 bytes      1       0 ns  train.py:7 forward
Segments at the end (7.00 s, after step 5):
     segment       live largest hole blocks     oldest  who pins it
    64.0 MiB   50.0 MiB     14.0 MiB      5     6.00 s  train.py:9 log
    40.0 MiB    0 bytes      0 bytes      0  work of other streams"""


def test_one_screen(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path, run_ns=100 * SECOND) as t:
        for i in range(100):
            at = t.segment(2 * MIB, i * SECOND + 5)
            t.step(i * SECOND, (i + 1) * SECOND)
            t.block(at, MIB + i * 16384, i * SECOND + 10, site=f"/a/rather/long/path/to/some/project/of/ours/file{i}.py:1 make")
    for options in [], ["--at", "end"]:
        text = shown(path, *options)
        lines = text.splitlines()  # the first one has the path of the trace, however long
        assert len(lines) <= 40 and max(map(len, lines[1:])) <= 88
        assert len(shown(path, "--all", *options).splitlines()) > 100
    assert "in 95 others" in shown(path)
    assert "file99.py:1 make" in shown(path, "--at", "end", "--all")


def test_like_segments_are_one_line(tmp_path):
    """Of equal size and state; all are there by --all, and as JSON."""
    path = tmp_path / "t.db"
    with Trace(path, run_ns=100 * SECOND) as t:
        for i in range(12):
            at = t.segment(20 * MIB, 5 + i)
            t.block(at, 20 * MIB, (1 + i) * SECOND, site=f"train.py:{i} keep")
        for i in range(3):
            at = t.segment(20 * MIB, 100 + i)
            t.block(at, 15 * MIB, 40 * SECOND, site="train.py:40 half")
        at = t.segment(20 * MIB, 200)
        t.block(at, 12 * MIB, 50 * SECOND, site="train.py:50 alone")
    for options in [], ["--at", "end"]:
        text = shown(path, *options)
        assert """who pins it
    20.0 MiB   12.0 MiB     8.00 MiB      1     50.0 s  train.py:50 alone
  3 segments of 20.0 MiB, each 15.0 MiB live, oldest 60.0 s: train.py:40 half
  12 segments of 20.0 MiB, all live, oldest 99.0 s: train.py:0 keep
""" in text
        assert "segments of" not in shown(path, "--all", *options)
        assert all(f"train.py:{i} keep" in shown(path, "--all", *options) for i in range(12))
    assert len(told(path, "--at", "end")[0]["moments"][0]["segments"]) == 16


# --- moments ----------------------------------------------------------------------------------

@pytest.mark.parametrize("when, ts_ns, allocated, pending", [
    ("0", 0, 0, 0), ("1.25", 1_250_000_000, 50, 0), ("1.25s", 1_250_000_000, 50, 0), ("2.75", 2_750_000_000, 20, 0),
    ("peak", 5 * SECOND + 20, 90, 0), ("reserved", 2 * SECOND + 7, 10, 0), ("end", 7 * SECOND, 50, 40),
    ("oom", 4 * SECOND + 100, 80, 0), ("oom:1", 4 * SECOND + 100, 80, 0), ("step:3", 3 * SECOND, 20, 0),
    ("1.00000002", SECOND + 20, 50, 0), ("1.000000019", SECOND + 19, 10, 0),
])
def test_moments(path, when, ts_ns, allocated, pending):
    moment, = told(path, "--at", when)[0]["moments"]
    assert (moment["ts_ns"], moment["allocated"], moment["pending"]) == (ts_ns, allocated * MIB, pending * MIB)
    assert sum(h["bytes"] for h in moment["holders"]) == moment["allocated"]
    assert sum(s["live"] for s in moment["segments"]) == moment["allocated"]
    assert sum(s["size"] for s in moment["segments"]) == moment["reserved"]


def test_who_held_it(path):
    moment, = told(path, "--at", "oom")[0]["moments"]
    by_site = {h["site"]: h for h in moment["holders"]}
    assert {site: (h["bytes"], h["blocks"]) for site, h in by_site.items()} == {
        "train.py:7 forward": (40 * MIB, 1), "train.py:9 log": (40 * MIB, 4)}
    assert by_site["train.py:9 log"]["age_ns"] == 3 * SECOND + 90 and by_site["train.py:9 log"]["age_steps"] == 3
    assert by_site["train.py:9 log"]["growth"] == 10 * MIB and by_site["train.py:7 forward"]["growth"] == 0
    pinned = {s["size"]: s["oldest"]["site"] for s in moment["segments"]}
    assert pinned == {64 * MIB: "train.py:9 log", 40 * MIB: "train.py:7 forward"}
    assert "After 4.00 s, in step 4: 80.0 MiB allocated, 104 MiB reserved, 0 bytes pending" \
        in shown(path, "--at", "oom")


def test_devices(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path) as t:
        for device in 0, 3:
            at = t.segment(2 * MIB, 5 + device, device=device)
            t.block(at, (device + 1) * 1024, 10, device=device)
        t.oom(100 * MIB, 50, device=3)
    assert [(d["device"], d["peak"]["bytes"]) for d in told(path)] == [(0, 1024), (3, 4096)]
    assert [d["device"] for d in told(path, "--device", 3)] == [3]
    assert [d["device"] for d in told(path, "--at", "oom")] == [3]
    assert [d["device"] for d in told(path, "--at", "end")] == [0, 3]
    assert "Device 0" in shown(path) and "Device 3" in shown(path)
    assert "device 1" in one_line(layoutspy("memory", "-d", "1", path), USAGE)


def test_nothing(tmp_path):
    path = tmp_path / "t.db"
    Trace(path).close()
    assert told(path) == [] and "No memory of a device is in this trace." in shown(path)


# --- usage ------------------------------------------------------------------------------------

@pytest.mark.parametrize("options, about", [
    ([], "TRACE"), (["--at", "noon"], "noon"), (["--at", "-1"], "-1"), (["--at", "oom:0"], "oom:0"),
    (["--at", "step"], "step"), (["--at", "step:"], "step:"), (["--at", "step:2x"], "2x"), (["--at", "peak:1"], "peak:1"),
    (["--at", "nan"], "nan"), (["--at", ""], "''"), (["--at", "1e300"], "1e300"), (["--points", "1"], "'1'"),
    (["--points", "x"], "'x'"), (["--device", "-1"], "-1"), (["--device", "256"], "256"), (["-z"], "-z"),
])
def test_wrong_usage(options, about, path):
    words = options + ([path] if options else [])
    assert about in one_line(layoutspy("memory", *words), USAGE)


@pytest.mark.parametrize("when, why", [
    ("7.1", "the recording has 7 seconds"), ("oom:2", "the recording has 1 event where memory ran out: 1 error"), ("step:6", "the recording has 5 steps"),
])
def test_no_such_moment(path, when, why):
    for options in [], ["--json"]:
        result = layoutspy("memory", *options, "--at", when, path)
        assert why in one_line(result, USAGE) and result.stdout == ""


def test_unreadable_and_unwritable(tmp_path, path):
    assert "missing.db" in one_line(layoutspy("memory", tmp_path / "missing.db"), INPUT)
    with open("/dev/full", "w") as full:
        result = layoutspy("memory", path, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == OUTPUT and result.stderr.count("\n") == 1


# --- a recording ------------------------------------------------------------------------------

def test_recorded(harness):
    assert harness.record([app("oom_retry"), "go_on"], memory="64M").status == 0
    harness.settle()
    path = harness.folder / "trace.db"
    device, = told(path)
    assert device["peak"]["bytes"] == 48 * MIB and device["capacity"] in (None, 64 * MIB)
    moment, = told(path, "--at", "oom")[0]["moments"]
    assert moment["allocated"] == 48 * MIB and moment["holders"][0]["site"].endswith(" fill")
    assert told(path, "--at", "end")[0]["moments"][0]["allocated"] == 24 * MIB
