"""Calls at moments when somebody holds a lock: in constructors, in children, in handlers, in threads
that are cancelled. A program that hangs is ended by its own alarm."""

import re

import pytest

from harness import FAULTS, fault

NO_COLLECTOR = {"LAYOUTSPY_COLLECTOR": "none"}


def recorded_and_lost(harness):
    outcome = harness.layoutspy("info", harness.out)
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    trace = harness.trace()
    assert trace.one("PRAGMA integrity_check") == "ok"
    return trace.one("SELECT COUNT(*) FROM call"), trace.lost()


def calls_made(outcome):
    return int(re.fullmatch(r"calls (\d+)\n", outcome.out)[1])


@pytest.mark.parametrize("way, rounds", [("fresh", 30), ("child", 10)])
def test_constructor_that_calls_while_a_recording_starts(harness, way, rounds):
    command = [fault("load_lock"), str(FAULTS / "libload_lock_library.so"), way, rounds]
    outcome = harness.record(command, out="t.%p.db", standin=False)
    assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", "")
    # Both threads' calls of each child, and the parent's one.
    traces = harness.traces()
    assert len(traces) == rounds + (way == "child")
    counts = sorted(harness.trace(path).one("SELECT COUNT(*) FROM call") for path in traces)
    assert counts == [1] * (way == "child") + [2] * rounds


def test_cancelled_threads(harness):
    outcome = harness.run([fault("cancels")], harness.environment(**NO_COLLECTOR), standin=False)
    assert outcome.status == 0 and outcome.err == "", repr(outcome)
    recorded, lost = recorded_and_lost(harness)
    assert lost == {} and recorded == calls_made(outcome)


def test_forks_while_kernels_are_registered(harness):
    outcome = harness.run([fault("fork_kernels")], harness.environment(**NO_COLLECTOR), standin=False)
    assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", "")
    assert len(harness.traces()) == 1 + 25  # every fourth child calls CUDA


def test_calls_in_the_handler_of_a_profiler(harness):
    """A call inside layoutspy itself is passed on and counted; every other one is recorded."""
    outcome = harness.record([fault("profiled")], standin=False)
    assert outcome.status == 0 and outcome.err == "", repr(outcome)
    recorded, lost = recorded_and_lost(harness)
    assert set(lost) <= {"re-entry"}
    assert recorded + sum(lost.values()) == calls_made(outcome)
