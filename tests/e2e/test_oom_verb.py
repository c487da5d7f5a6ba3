"""`layoutspy oom`: the figures, against traces made by hand whose truth is known, and what one screen says."""

import json
import re
import subprocess

import pytest

from cli import INPUT, OK, OUTPUT, USAGE, layoutspy, one_line
from harness import COMMAND, ON_STANDIN, app, site_matches
from synthetic import Trace

MIB = 1 << 20
SECOND = 1_000_000_000
EVENT = {"requested", "device", "capacity", "allocated", "reserved", "device_free", "largest_hole", "recovered",
         "site"}
HOLDER = {"site", "bytes", "blocks", "age_ns", "growth"}


def told(path, *options):
    result = layoutspy("oom", "--json", *options, path)
    assert result.returncode == OK and result.stderr == "", result.stderr
    return json.loads(result.stdout)


def screen(path, *options):
    result = layoutspy("oom", *options, path)
    assert result.returncode == OK and result.stderr == "", result.stderr
    return result.stdout


def training(trace, steps=8, **columns):
    """A GiB; the model has 100 MiB, each step of a second keeps 20 and frees 30. Dies in the last."""
    at = trace.segment(600 * MIB, 10)
    other = trace.segment(300 * MIB, 20)
    trace.block(at, 100 * MIB, 30, site="train.py:3 model")
    for i in range(steps):
        begin = (i + 1) * SECOND
        trace.step(begin, begin + SECOND)
        trace.block(other, 30 * MIB, begin + 10, begin + 500, site="train.py:7 forward")
        if i + 1 < steps:
            trace.block(at + (200 + 20 * i) * MIB, 20 * MIB, begin + 20, site="train.py:9 log")
    return trace.oom(400 * MIB, steps * SECOND + 600, site="train.py:8 forward",
                     tried=[(1, 400 * MIB), (2, 50 * MIB), (2, 30 * MIB), (3, 0), (1, 400 * MIB), (6, 400 * MIB)],
                     asked=400 * MIB, attempts=2, waited_ns=12_000_000, device_free=100 * MIB,
                     device_total=1024 * MIB, **columns)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path, run_ns=9 * SECOND, app="python train.py") as t:
        training(t, allocated=240 * MIB, reserved=900 * MIB, pending=0, cached=660 * MIB, largest_hole=300 * MIB)
    return path


# --- figures ----------------------------------------------------------------------------------

def test_figures(path):
    story = told(path)
    assert set(story) >= {"events", "holders", "census", "cascade", "findings"}
    event, = story["events"]
    assert set(event) >= EVENT
    assert {key: event[key] for key in EVENT} == {
        "requested": 400 * MIB, "device": 0, "capacity": 1024 * MIB, "allocated": 240 * MIB, "reserved": 900 * MIB,
        "device_free": 100 * MIB, "largest_hole": 300 * MIB, "recovered": False, "site": "train.py:8 forward"}
    assert event["gap"] == 660 * MIB
    assert [t["what"] for t in event["tried"]] == ["failed", "gave back", "gave back", "waited", "failed", "reported"]
    assert story["told"]["step"] == 8 and story["told"]["largest_before"] == 100 * MIB
    assert story["told"]["unaccounted"] == 24 * MIB


def test_holders(path):
    holders = told(path)["holders"]
    assert all(set(h) >= HOLDER for h in holders)
    assert [(h["site"], h["bytes"], h["blocks"]) for h in holders] == [
        ("train.py:9 log", 140 * MIB, 7), ("train.py:3 model", 100 * MIB, 1)]
    log, model = holders
    assert log["growth"] == 20 * MIB and model["growth"] == 0
    assert log["age_ns"] == 7 * SECOND + 580 and log["age_steps"] == 7
    assert log["change"] == 100 * MIB  # since step 3 began


def test_segments_and_who_pins_them(path):
    large, small = told(path)["segments"]
    assert (large["size"], large["live"], large["free"]) == (600 * MIB, 240 * MIB, 360 * MIB)
    assert large["hole"] == 260 * MIB and large["blocks"] == 8
    assert large["oldest"]["site"] == "train.py:3 model"
    assert (small["live"], small["hole"], small["oldest"]) == (0, 300 * MIB, None)


def test_killed_recording_has_no_figures_of_its_own(tmp_path):
    """NULL columns: what the blocks and segments tell."""
    path = tmp_path / "t.db"
    with Trace(path, ended="killed", run_ns=9 * SECOND) as t:
        training(t)
    event, = told(path)["events"]
    assert (event["allocated"], event["reserved"], event["pending"]) == (240 * MIB, 900 * MIB, 0)
    assert (event["cached"], event["largest_hole"]) == (660 * MIB, 300 * MIB)
    assert "killed by a signal" in screen(path)


def test_pending(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path) as t:
        at = t.segment(100 * MIB, 10)
        t.block(at, 60 * MIB, 20, 30, free=None, site="train.py:5 copy")
        t.oom(80 * MIB, 40)
    event, = told(path)["events"]
    assert (event["allocated"], event["pending"], event["largest_hole"]) == (0, 60 * MIB, 40 * MIB)
    assert "pending" in screen(path) and "Nobody whom the recording knows" in screen(path)


def test_plain_program(tmp_path):
    """Without a framework: the program's own allocations; a pool that nobody knows has no holes."""
    path = tmp_path / "t.db"
    with Trace(path) as t:
        t.alloc("device", 300 * MIB, 100, site="a.c:4 grow")
        t.alloc("device", 200 * MIB, 200, end=300, site="a.c:5 scratch")
        t.alloc("pinned", 900 * MIB, 250, site="a.c:6 host", api="cudaHostAlloc")
        t.oom(500 * MIB, 400, site="a.c:4 grow", source=2, allocated=300 * MIB, attempts=1, device_total=600 * MIB,
              tried=[(1, 500 * MIB)])
    story = told(path)
    event, = story["events"]
    assert event["reserved"] is None and event["largest_hole"] is None and event["gap"] is None
    assert event["device_free"] is None
    assert [(h["site"], h["bytes"], h["growth"]) for h in story["holders"]] == [("a.c:4 grow", 300 * MIB, None)]
    text = screen(path)
    assert "nobody asked the driver" in text and "reserved" not in text


def test_memory_beside_the_allocator(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path) as t:
        at = t.segment(100 * MIB, 10)
        t.block(at, 60 * MIB, 20)
        t.alloc("device", 50 * MIB, 30, site="ext.cpp:7 init")
        t.oom(80 * MIB, 40, device_free=20 * MIB, device_total=200 * MIB, reserved=100 * MIB, allocated=60 * MIB)
    story = told(path)["told"]
    assert story["direct"] == 50 * MIB and story["unaccounted"] == 30 * MIB


# --- several, none ----------------------------------------------------------------------------

def test_several_events(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path, run_ns=20 * SECOND) as t:
        t.oom(10 * MIB, SECOND, site="train.py:1 warm", recovered=1, attempts=1, flush_ns=2_000_000,
              tried=[(1, 10 * MIB), (2, 10 * MIB), (5, 10 * MIB)])
        training(t)
        t.oom(90 * MIB, 12 * SECOND, site="train.py:20 retry")
        t.oom(80 * MIB, 13 * SECOND, site="train.py:21 retry")
    story = told(path)
    assert [e["recovered"] for e in story["events"]] == [True, False, False, False]
    assert story["told"]["event"] == 2
    assert [(c["requested"], c["site"], c["ts_ns"]) for c in story["cascade"]] == [
        (90 * MIB, "train.py:20 retry", 12 * SECOND), (80 * MIB, "train.py:21 retry", 13 * SECOND)]
    assert all(set(c) >= {"outlived", "consequence"} for c in story["cascade"])
    text = screen(path)
    assert "event 2 of 4 (3 errors, 1 stall)" in text and "train.py:20 retry" in text
    assert "1 other request was refused at first and served on a retry" in text
    stall = screen(path, "--event", "1")
    assert "SHORT OF MEMORY" in stall and "a retry succeeded" in stall.replace("\n  ", " ")
    assert " oom: " not in stall and " oom of event" not in stall
    assert told(path, "-e", 4)["told"]["event"] == 4


def test_cascade_is_what_the_finding_says(tmp_path):
    """Blocks of the failed step that are still there when the retry fails."""
    path = tmp_path / "t.db"
    with Trace(path, run_ns=20 * SECOND) as t:
        training(t)
        kept = t.segment(400 * MIB, 8 * SECOND + 100, site="train.py:7 forward")
        t.block(kept, 350 * MIB, 8 * SECOND + 200, site="train.py:7 forward")
        t.oom(90 * MIB, 9 * SECOND, site="train.py:20 retry", attempts=2, device_total=1024 * MIB, device_free=MIB)
    story = told(path)
    found = [f for f in story["findings"] if f["kind"] == "oom-cascade"]
    later = [x for f in found for x in f["evidence"]["later"]]
    assert [c["consequence"] for c in story["cascade"]] == [x["consequence"] for x in later] or not found
    for finding in found:
        assert story["cascade"][0]["outlived"] == finding["evidence"]["later"][0]["outlived"]
    second = screen(path, "-e", "2").replace("\n  ", " ")
    consequence = any(x["consequence"] for x in later)
    assert ("a consequence of event 1: " in second) == consequence


def test_findings_of_another_event_say_so(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path, run_ns=20 * SECOND) as t:
        training(t)
        t.oom(2000 * MIB, 12 * SECOND, site="train.py:20 other", attempts=1, device_total=1024 * MIB)
    ooms = [f for f in told(path)["findings"] if f["kind"] == "oom"]
    assert len(ooms) == 2
    for number in 1, 2:
        text = screen(path, "-a", "-e", str(number))
        assert f" oom of event {3 - number}: " in text and f"oom of event {number}: " not in text
        assert text.index(" oom: ") < text.index(" oom of event ")
    cut, whole = screen(path), screen(path, "-a")
    left = re.search(r"\.\.\. and (\d+) more findings? \(-a\)", cut)
    count = lambda text: len(re.findall(r"^  (?:PROBLEM|WARNING|NOTE) ", text, re.M))
    assert count(whole) == count(cut) + (int(left[1]) if left else 0)


def test_no_error(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path) as t:
        at = t.segment(100 * MIB, 10)
        t.block(at, 60 * MIB, 20)
    story = told(path)
    assert story["events"] == [] and story["holders"] == [] and story["cascade"] == [] and story["census"] == []
    assert "No out-of-memory error in this trace: every request for device memory was served." in screen(path)


def test_stalls_alone(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path) as t:
        for i in range(3):
            t.oom((i + 1) * MIB, 1000 * i, recovered=1, attempts=1, flush_ns=5_000_000)
    text = screen(path)
    assert "was served in the end" in text.replace("\n  ", " ")
    assert "3 requests were refused at first and served on a retry (a stall, no error), 15.0 ms in all" \
        in text.replace("\n  ", " ")
    assert told(path)["holders"] == []


def test_empty_trace(tmp_path):
    path = tmp_path / "t.db"
    Trace(path).close()
    assert told(path)["events"] == [] and "No out-of-memory error" in screen(path)


# --- other processes --------------------------------------------------------------------------

def other(folder, name, start_s=0.0, run_ns=9 * SECOND, host="box", visible=None, size=77 * MIB, device=0, **trace):
    """A process that holds `size` on a device from 10 ns on; it began start_s after the first one."""
    with Trace(folder / name, run_ns=run_ns, **trace) as t:
        t.meta("start_real_ns", 1_700_000_000_000_000_000 + int(start_s * SECOND))
        t.meta("host", host)
        t.meta("pid", 99)
        if visible is not None:
            t.meta("env.CUDA_VISIBLE_DEVICES", visible)
        t.segment(size, 10, device=device)
        t.segment(5 * MIB, 20, 30, device=device)


def held_by_others(path):
    return {(o["trace"].rsplit("/", 1)[-1], o["bytes"]) for o in told(path)["others"]}


def test_other_processes(path):
    folder = path.parent
    other(folder, "same.db")
    other(folder, "later.db", start_s=100)
    other(folder, "ended.db", run_ns=SECOND)
    other(folder, "elsewhere.db", host="another")
    other(folder, "second.db", device=1)
    (folder / "notes.txt").write_text("no trace\n" * 100)
    (folder / "other.db").write_bytes(b"SQLite format 3\0" + bytes(4096))
    assert held_by_others(path) == {("same.db", 77 * MIB)}
    assert told(path)["told"]["unaccounted"] == 0
    assert "other processes     77.0 MiB  pid 99, same.db" in screen(path)


@pytest.mark.parametrize("visible, device, same", [
    ("0", 0, True), ("1", 0, False), ("1,0", 1, True), ("1, 0", 1, True), ("", 0, False), ("GPU-1", 0, False),
    ("3,2,0,1", 2, True), ("3,2,0,1", 0, False),
])
def test_devices_by_their_real_number(path, visible, device, same):
    other(path.parent, "b.db", visible=visible, device=device)
    assert bool(held_by_others(path)) == same


def test_devices_of_this_process(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path, run_ns=9 * SECOND) as t:
        t.meta("env.CUDA_VISIBLE_DEVICES", "5,GPU-7")
        t.oom(80 * MIB, 400, device=1)
    other(tmp_path, "a.db", visible="GPU-7")
    other(tmp_path, "b.db", visible="5", size=3 * MIB)
    assert held_by_others(path) == {("a.db", 77 * MIB)}


# --- the screen -------------------------------------------------------------------------------

def test_text(path):
    lines = screen(path).splitlines()
    assert lines[0] == f"{path}: python train.py; the program exited." or lines[0].startswith(str(path))
    begin = lines.index("OUT OF MEMORY on device 0, 8.00 s after the start, in step 8 of 8.")
    end = lines.index("What to do:")
    assert "\n".join(lines[begin:end]) == """\
OUT OF MEMORY on device 0, 8.00 s after the start, in step 8 of 8.
  400 MiB asked for at train.py:8 forward: refused. No request before it was larger than
  100 MiB.
  capacity            1.00 GiB
  reserved             900 MiB  by its allocator: 88 % of the device
  allocated            240 MiB  in 8 blocks
  cached               660 MiB  the gap: its allocator has it, nobody uses it; the
                                 largest hole: 300 MiB, too small for the request
  not recorded        24.0 MiB  contexts, libraries' own memory, processes that were not
                                 recorded
  free                 100 MiB  as the driver said at that moment
  tried: asked the driver for 400 MiB: refused; gave back 2 pieces of its cache, 80.0
         MiB; waited for the device; asked again for 400 MiB: refused; gave up; 12.0 ms
         of waiting.
  who holds it                                  bytes   blocks       oldest      a step
  train.py:9 log                              140 MiB        7      7 steps   +20.0 MiB
  train.py:3 model                            100 MiB        1      8 steps           0
What grew since step 3 began, 5 steps before:
     +100 MiB  train.py:9 log"""


def test_one_screen(tmp_path):
    """However much there is to tell."""
    path = tmp_path / "t.db"
    with Trace(path, run_ns=60 * SECOND) as t:
        at = t.segment(900 * MIB, 10)
        for i in range(40):
            t.step(i * SECOND, (i + 1) * SECOND)
            for k in range(20):
                t.block(at + (20 * i + k) * MIB, MIB, i * SECOND + 10 + k,
                        site=f"/home/somebody/a/long/way/to/the/project/models/layer{k}.py:{k} forward")
        for i in range(12):
            t.oom(400 * MIB, (41 + i) * SECOND, site=f"train.py:{i} retry", attempts=2, device_total=1024 * MIB,
                  device_free=20 * MIB)
    for i in range(6):
        other(tmp_path, f"other{i}.db", run_ns=60 * SECOND, size=(i + 1) * MIB)
    text = screen(path)
    assert len(text.splitlines()) <= 40
    assert max(len(line) for line in text.splitlines()) <= 100
    assert "What to do:" in text
    assert len(screen(path, "--all").splitlines()) > len(text.splitlines())
    assert len(told(path)["holders"]) == 20


def test_no_census(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path) as t:
        t.db.execute("INSERT INTO frame(function, kind) VALUES('step', 1)")
        t.oom(MIB, 100)
    assert "No census of Python's objects: it had not run when the recording ended." in screen(path)
    with Trace(tmp_path / "c.db") as t:
        number = t.oom(MIB, 100)
        t.db.execute("INSERT INTO census VALUES(1, 110, 120, 1, ?, 4, 0, 0, 0, 'the interpreter was going down')",
                     (number,))
    assert "No census of Python's objects: the interpreter was going down." in screen(tmp_path / "c.db")
    assert told(tmp_path / "c.db")["census"] == []


def test_census(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path) as t:
        number = t.oom(MIB, 100)
        t.db.execute("INSERT INTO census VALUES(7, 110, 120, 1, ?, 2, 500, 3, 40, NULL)", (number,))
        for i in range(3):
            t.db.execute("INSERT INTO census_storage VALUES(7, ?, 0, ?, 512, ?)", (i, 4096 * (i + 1), 8 * MIB))
            t.db.execute("INSERT INTO census_tensor VALUES(7, ?, ?, 1, 0, 4, 'float32', 'Tensor', '[]', '[]', 1, 1,"
                         " 0, 1, 1)", (i, i))
            t.db.execute("INSERT INTO census_path VALUES(7, ?, ?)", (i, f"losses[{i}]"))
    text = screen(path)
    assert "losses[*]: 3 tensors; autograd's graph behind them holds 24.0 MiB more" in text
    first = told(path)["census"][0]
    assert set(first) >= {"bytes", "tensors", "views", "paths", "held_by_graph"}
    assert (first["bytes"], first["tensors"], first["held_by_graph"]) == (512, 1, 8 * MIB)


def test_reads_only(path):
    """A trace that cannot be written is told of all the same."""
    path.chmod(0o444)
    assert told(path)["told"]["step"] == 8


# --- usage ------------------------------------------------------------------------------------

@pytest.mark.parametrize("options, about", [
    ([], "TRACE"), (["--event", "0"], "'0'"), (["--event", "x"], "'x'"), (["--event", ""], "''"), (["-z"], "-z"),
    (["--json=1"], "takes no value"),
])
def test_wrong_usage(options, about, path):
    words = options + ([path] if options else [])
    assert about in one_line(layoutspy("oom", *words), USAGE)


def test_no_such_event(path):
    assert "there is no event 2: the recording has 1 (1 error)" in one_line(layoutspy("oom", "--event", "2", path), USAGE)


def test_unreadable_and_unwritable(tmp_path, path):
    assert "missing.db" in one_line(layoutspy("oom", tmp_path / "missing.db"), INPUT)
    with open("/dev/full", "w") as full:
        result = layoutspy("oom", path, stdout=full, stderr=subprocess.PIPE)
    assert result.returncode == OUTPUT and result.stderr.count("\n") == 1


# --- a recording ------------------------------------------------------------------------------

def test_recorded(harness):
    """A C program of 48 MiB that asks for 24 more of 64, and does without."""
    assert harness.record([app("oom_retry"), "go_on"], memory="64M").status == 0
    harness.settle()
    story = told(harness.folder / "trace.db")
    event, = story["events"]
    assert (event["requested"], event["allocated"], event["recovered"]) == (24 * MIB, 48 * MIB, False)
    assert site_matches(event["site"], "oom_retry.c", "oom asked", "ask")
    holder, = story["holders"]
    assert (holder["bytes"], holder["blocks"]) == (48 * MIB, 6) and holder["site"].endswith(" fill")


def test_recorded_stall(harness):
    """The third attempt is served, and what was done for it is told in order."""
    assert harness.record([app("oom_retry"), "retry"], memory="64M").status == 0
    harness.settle()
    story = told(harness.folder / "trace.db")
    event, = story["events"]
    assert event["recovered"] and event["capacity"] == 64 * MIB and event["device_free"] == 16 * MIB
    assert [t["what"] for t in event["tried"]] == [
        "failed", "asked for free memory", "waited", "gave back", "gave back", "failed", "gave back", "succeeded"]
    assert "1 request was refused at first and served on a retry" in screen(harness.folder / "trace.db")


def test_what_explains_the_event_comes_first(harness):
    assert harness.record([app("two_sessions"), "grow"], memory="160M").status == 1
    harness.settle()
    text = screen(harness.folder / "trace.db")
    assert re.findall(r"^  PROBLEM ([a-z-]+):", text, re.M)[:2] == ["linear-growth", "oom"], text


def test_run_says_where_to_look(harness):
    command = [COMMAND, "run", "-o", "t.db", "--", ON_STANDIN, "--memory", "64M", app("oom_retry"), "go_on"]
    environment = harness.environment(preload=False)
    environment.pop("LAYOUTSPY_OUT", None)
    result = subprocess.run(list(map(str, command)), cwd=harness.folder, env=environment, text=True,
                            capture_output=True, timeout=60)
    assert result.returncode == 0 and "next: " in result.stderr and " oom t.db" in result.stderr, result.stderr


@pytest.mark.parametrize("goes_on, severity", [(False, "info"), (True, "problem")])
def test_what_is_held_when_memory_runs_out_is_no_leak(tmp_path, goes_on, severity):
    """What a program would have freed that ends for lack of memory is not known."""
    path = tmp_path / "t.db"
    with Trace(path) as t:
        t.memory(600 * MIB, 600 * MIB)
        t.alloc("device", 300 * MIB, 100, site="a.c:4 weights")
        t.alloc("device", 200 * MIB, 200, end=300, site="a.c:5 scratch")
        t.oom(500 * MIB, 400, site="a.c:6 more", source=2, attempts=1, device_total=600 * MIB)
        if goes_on:
            t.alloc("device", 100 * MIB, 500, end=600, site="a.c:7 smaller")
    found = json.loads(layoutspy("report", "--json", path).stdout)["findings"]
    assert [f["severity"] for f in found if f["kind"] == "leak"] == [severity]
