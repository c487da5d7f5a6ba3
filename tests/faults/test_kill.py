"""SIGKILL of the target, the collector, or both, at random points: nothing that was committed is
lost, nothing is there twice, the trace is sound, and a later `layoutspy` command takes in what is
left. 30 points in the short run, 200 in the long one (LAYOUTSPY_LONG=1)."""

import os
import random
import signal
import sqlite3
import time

import pytest

from harness import fault, wait_until
from truth import Trace, compare, parse_log

LONG = os.environ.get("LAYOUTSPY_LONG") == "1"
POINTS = {"target": 67 if LONG else 10, "collector": 67 if LONG else 10, "both": 66 if LONG else 10}
assert sum(POINTS.values()) == (200 if LONG else 30)


def target_of(process):
    """on-standin ends by exec, so the process is the program itself."""
    return process.pid


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def sound(path):
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.close()


@pytest.mark.parametrize("point", [f"{who}-{n}" for who, count in POINTS.items() for n in range(count)])
def test_kill(harness, point):
    who, number = point.rsplit("-", 1)
    chance = random.Random(f"layoutspy {point}")
    seconds = 0.7
    process = harness.start([fault("burst"), str(chance.choice([1, 2, 4])), str(seconds)])
    # Half of the points in the first moments, where the trace, the spool and the collector start.
    time.sleep(chance.choice([chance.uniform(0, 0.15), chance.uniform(0, seconds)]))
    victims = []
    if who in ("collector", "both"):
        wait_until(lambda: harness.collector() or process.poll() is not None, seconds=2, every=0.002)
        if number != "0":
            time.sleep(chance.uniform(0, 0.2))
        collector = harness.collector()
        if collector:
            victims.append(collector)
    if who in ("target", "both"):
        victims.append(target_of(process))
    chance.shuffle(victims)
    for pid in victims:
        kill(pid)
    out, err = process.communicate(timeout=60)
    if who == "collector":
        assert (process.returncode, out, err) == (0, b"done\n", b"")
    else:
        assert err == b""
    judge(harness, who, killed_target=process.returncode == -signal.SIGKILL)


def judge(harness, who, killed_target):
    processes = [p for p in parse_log(harness.log)] if harness.log.exists() else []
    processes = [p for p in processes if p.calls]
    assert len(processes) <= 1
    if not processes:  # killed before its first call returned
        return
    if not harness.out.exists():
        # Killed inside its first calls, before the trace had a name.
        assert killed_target and all(len(calls) <= 1 for calls in processes[0].by_thread().values())
        return
    # A later command takes in what is left, whoever died.
    outcome = harness.layoutspy("report", harness.out)
    if outcome.status == 3 and killed_target:
        assert len(outcome.err.splitlines()) == 1
        assert all(len(calls) <= 1 for calls in processes[0].by_thread().values()), outcome.err
        return
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    sound(harness.out)
    assert harness.leftovers() == []
    result = compare(harness.out, processes[0], allow_tail=1 if killed_target else 0)
    assert not result.differences, str(result)
    trace = Trace(harness.out)
    assert trace.lost() == {}
    trace.close()
    # And taking it in again changes nothing.
    before = result.counts["recorded"]
    assert harness.layoutspy("info", harness.out).status == 0
    assert compare(harness.out, processes[0], allow_tail=1 if killed_target else 0).counts["recorded"] == before


def test_collector_killed_twice_and_target_goes_on(harness):
    """The spool outlives its collector; the program neither waits for it nor notices."""
    process = harness.start([fault("burst"), "2", "1"])
    assert wait_until(lambda: harness.collector() is not None)
    kill(harness.collector())
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, b"done\n", b"")
    assert harness.leftovers() != []  # what is left waits for the next command
    assert harness.layoutspy("info", harness.out).status == 0
    assert harness.leftovers() == []
    harness.assert_true()


def test_collector_ends_with_its_target(harness):
    process = harness.start([fault("burst"), "1", "20"])
    assert wait_until(lambda: harness.collector() is not None)
    time.sleep(0.2)
    kill(process.pid)
    process.communicate()
    assert wait_until(lambda: harness.collector() is None, seconds=2.5)
    assert harness.leftovers() == []


def test_collector_holds_no_descriptor_of_the_target(harness):
    process = harness.start([fault("burst"), "1", "20"])
    try:
        assert wait_until(lambda: harness.collector() is not None)
        pid = harness.collector()
        time.sleep(0.3)
        ours = {os.readlink(f"/proc/{process.pid}/fd/{n}") for n in "012"}
        theirs = {}
        for n in os.listdir(f"/proc/{pid}/fd"):
            theirs[n] = os.readlink(f"/proc/{pid}/fd/{n}")
        assert not [link for link in theirs.values() if link.startswith("pipe:") and link in ours], theirs
        assert os.getsid(pid) != os.getsid(process.pid)
        with open(f"/proc/{pid}/environ", "rb") as f:
            assert b"LD_PRELOAD=" not in f.read()
    finally:
        kill(process.pid)
        process.communicate()


def test_collector_that_is_stopped_does_not_hold_up_the_end(harness):
    """The wait for a drain at the end is bounded, and what waited in the spool comes in later."""
    process = harness.start([fault("burst"), "1", "0.5"])
    assert wait_until(lambda: harness.collector() is not None)
    collector = harness.collector()
    os.kill(collector, signal.SIGSTOP)
    try:
        out, err = process.communicate(timeout=0.5 + 10)
        assert (process.returncode, out, err) == (0, b"done\n", b"")
        assert harness.collector() == collector and harness.leftovers() != []
    finally:
        os.kill(collector, signal.SIGCONT)
        kill(process.pid)
    harness.settle()
    harness.assert_true()
