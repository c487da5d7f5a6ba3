"""Out of memory again and again: in a forward, inside a backward, in several threads, in the pin_memory
thread, retried, in four ranks at once, and with a SIGKILL meanwhile. Nothing hangs, nothing that was
committed is lost, our memory stays bounded, and every exception reads as without us.

200 repeats within one process; 10 rounds of four ranks and 10 kills in the short run, 200 each in the
long one (LAYOUTSPY_LONG=1)."""

import os
import random
import re
import signal
import sqlite3
import threading
import time

import pytest

from harness import wait_until
from torch_harness import HERE
from truth import Trace, compare, parse_log

LONG = os.environ.get("LAYOUTSPY_LONG") == "1"
REPEATS, ROUNDS, KILLS, RANKS = 200, 200 if LONG else 10, 200 if LONG else 10, 4
SCRIPT = HERE / "oom_stress.py"
FAILS = {"pin": {"STANDIN_FAIL": "cudaHostAlloc:*:2"}}
OOM = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"

# What recording may add to a process in 200 failures (the tables of stacks and of code objects), what
# the collector may need, and what a spool may hold: all far below what 200 failures take by the byte.
MORE_KIB, COLLECTOR_KIB, SPOOL = 16 << 10, 96 << 10, 32 << 20


def texts(outcome, way):
    """The exceptions of a run, and its figures. Threads that fail side by side see any amounts."""
    *lines, last = outcome.out.splitlines()
    text = "\n".join(lines)
    if way == "thread":
        text = "\n".join(sorted(set(re.sub(r"\d+(\.\d+)? [KMG]?i?B|\d+\.\d+ \w+", "SIZE", line) for line in lines)))
    return text, {k: int(v) for k, v in (word.split("=") for word in last.split())}


class Watch(threading.Thread):
    """The most that the collector and the spool ever take, sampled."""

    def __init__(self, torch):
        super().__init__(daemon=True)
        self.torch, self.resident, self.spool, self.done = torch, 0, 0, threading.Event()

    def run(self):
        pid = None
        while not self.done.wait(0.1):
            pid = pid or self.torch.collector()
            self.spool = max([self.spool, *(p.stat().st_blocks * 512 for p in self.spools())])
            if pid:
                try:
                    with open(f"/proc/{pid}/status") as status:
                        peak = [int(line.split()[1]) for line in status if line.startswith("VmHWM")]
                except OSError:
                    continue
                self.resident = max([self.resident, *peak])

    def spools(self):
        try:
            return [p for p in self.torch.folder.glob("*.spool*") if p.is_file()]
        except FileNotFoundError:
            return []


def record(torch, way, repeats, **more_env):
    watch = Watch(torch)
    watch.start()
    outcome = torch.go(SCRIPT, way, str(repeats), memory="2G", more_env=dict(FAILS.get(way, {}), **more_env))
    watch.done.set()
    watch.join()
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    assert 0 < watch.resident < COLLECTOR_KIB
    assert 0 < watch.spool < SPOOL
    return outcome


plain_runs = {}


def plain(torch, way):
    """Without us, once for each way."""
    if way not in plain_runs:
        outcome = torch.go_plain(SCRIPT, way, str(REPEATS), memory="2G", more_env=FAILS.get(way))
        assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
        plain_runs[way] = texts(outcome, way)
    return plain_runs[way]


@pytest.mark.parametrize("way, census", [
    ("forward", "oom"), ("forward", "off"), ("backward", "oom"), ("backward", "off"), ("thread", "oom"),
    ("pin", "oom"), ("retried", "oom")])
def test_caught_again_and_again(torch, way, census):
    more = {"LAYOUTSPY_CENSUS": "off"} if census == "off" else {}
    text, figures = texts(record(torch, way, REPEATS, **more), way)
    expected, without = plain(torch, way)
    assert text == expected
    assert {k: v for k, v in figures.items() if k != "grown_kib"} == \
        {k: v for k, v in without.items() if k != "grown_kib"}
    assert figures["rounds"] == REPEATS
    assert figures["grown_kib"] < without["grown_kib"] + MORE_KIB
    torch.assert_true()
    trace = torch.trace()
    assert trace.lost() == {}
    if way != "pin":  # page-locked memory is the host's
        assert trace.one("SELECT COUNT(*) FROM oom WHERE recovered = 0") == figures["failures"]
    made = trace.one("SELECT COUNT(*) FROM census WHERE state IN (2, 3)")
    assert (made > 0) == (census != "off" and way != "pin")


# ---- several processes ------------------------------------------------------------------------


@pytest.fixture
def start(torch):
    """Starts processes of the test, and ends them with it, however it ends."""
    started = []

    def begin(*arguments, **how):
        started.append(torch.start(*arguments, **how))
        return started[-1]
    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def start_ranks(torch, start, way, rounds, preload=True):
    meeting = torch.folder / f"meeting-{preload}"
    meeting.mkdir()
    started = []
    for rank in range(RANKS):
        env = torch.environment(preload=preload, out="rank%r.db", RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=RANKS)
        log = torch.folder / f"rank{rank}.log" if preload else False
        started.append(start(torch.argv(SCRIPT, way, str(rounds), meeting), env, memory="2G", log=log))
    return started


def finish(process):
    out, err = process.communicate(timeout=300)
    return process.returncode, out.decode(), err.decode()


def without_figures(ended):
    return [(status, re.sub(r"grown_kib=\S+", "", out), err) for status, out, err in ended]


def test_four_ranks_at_once(torch, start):
    ended = [finish(p) for p in start_ranks(torch, start, "rank", ROUNDS)]
    expected = [finish(p) for p in start_ranks(torch, start, "rank", ROUNDS, False)]
    assert without_figures(ended) == without_figures(expected)
    torch.settle()
    for rank in range(RANKS):
        (process,) = [p for p in parse_log(torch.folder / f"rank{rank}.log") if p.calls]
        result = compare(torch.folder / f"rank{rank}.db", process)
        assert not result.differences, f"rank {rank}: {result}"
        trace = torch.trace(torch.folder / f"rank{rank}.db")
        assert trace.one("SELECT COUNT(*) FROM oom WHERE recovered = 0") == ROUNDS
        assert trace.lost() == {}


def test_four_ranks_that_die_of_it(torch, start):
    """Nobody catches it: status and traceback are those of a run without us."""
    ended = [finish(p) for p in start_ranks(torch, start, "fatal", 1)]
    expected = [finish(p) for p in start_ranks(torch, start, "fatal", 1, False)]
    assert ended == expected
    assert all(status == 1 and "torch.OutOfMemoryError: CUDA out of memory" in err for status, _, err in ended)
    torch.settle()
    for rank in range(RANKS):
        trace = torch.trace(torch.folder / f"rank{rank}.db")
        row = trace.rows("SELECT * FROM oom_event")
        assert len(row) == 1 and row[0]["recovered"] == 0 and "oom_stress.py" in row[0]["site"]


# ---- killed -----------------------------------------------------------------------------------


def failures(log):
    try:
        return log.read_bytes().count(OOM.encode())
    except FileNotFoundError:
        return 0


@pytest.mark.parametrize("number", range(KILLS))
def test_killed(torch, start, number):
    """At a random moment between the first failure and the tenth or so, mostly inside of one; each
    third time the collector goes first."""
    chance = random.Random(f"out of memory {number}")
    process = start(torch.argv(SCRIPT, chance.choice(["forward", "backward"]), "100000"),
                    torch.environment(), memory="2G")
    assert wait_until(lambda: failures(torch.log) > 0 or process.poll() is not None, seconds=60, every=0.002)
    time.sleep(chance.uniform(0, 0.05))
    if number % 3 == 2 and torch.collector():
        os.kill(torch.collector(), signal.SIGKILL)
        time.sleep(chance.uniform(0, 0.02))
    os.kill(process.pid, signal.SIGKILL)
    status, _, _ = finish(process)
    assert status == -signal.SIGKILL
    outcome = torch.layoutspy("report", torch.out)  # takes in what is left
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    torch.settle()
    db = sqlite3.connect(torch.out)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.close()
    (logged,) = [p for p in parse_log(torch.log) if p.calls]
    result = compare(torch.out, logged, allow_tail=1)
    assert not result.differences, str(result)
    trace = Trace(torch.out)
    told = sum(call.name == OOM for call in logged.calls)
    assert told - 1 <= trace.one("SELECT COUNT(*) FROM oom WHERE source = 1 AND recovered = 0") <= told + 1
    assert trace.lost() == {}
