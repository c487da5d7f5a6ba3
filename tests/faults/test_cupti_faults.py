"""A CUPTI that hangs, fails, lies or is missing: the program ends as without us, in time, and what the
hooks saw is in the trace."""

import re
import time

import pytest

from harness import ROOT, app

FUNCTIONS = re.findall(r"^FN\(\w+, (\w+),", (ROOT / "cupti" / "functions.def").read_text(), re.M)
LATEST = 2.0  # s, from the program's own end to the process's
PROGRAM = "leaky"


def record(harness, **env):
    """How long the process took, and what it said."""
    start = time.monotonic()
    outcome = harness.record([app(PROGRAM)], more_env=dict(env, LAYOUTSPY_CUPTI="full"))
    return time.monotonic() - start, outcome


def check(harness, **env):
    start = time.monotonic()
    plain = harness.plain([app(PROGRAM)])
    bare = time.monotonic() - start
    took, outcome = record(harness, **env)
    assert outcome.same_as(plain), f"with layoutspy: {outcome}\nwithout: {plain}"
    harness.assert_true()
    harness.report()
    assert harness.layoutspy("info", harness.out).status == 0
    # A loaded machine takes its time: what is measured is that nothing waits without end.
    assert took - bare < LATEST + 10, f"{took:.1f} s, {bare:.1f} s without us"
    return harness.trace()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_call_fails(harness, function):
    trace = check(harness, STANDIN_FAIL=f"{function}:*:999")
    state = trace.one("SELECT state FROM coverage WHERE layer = 'cupti'")
    assert state in ("on", "partial", "unavailable")
    if function == "cuptiSubscribe":
        assert state == "unavailable"


@pytest.mark.parametrize("fault", ["hang-flush", "late", "shuffle", "invalid", "garbage", "no-kernel-names", "drop",
                                   "slow-callback"])
def test_faults(harness, fault):
    trace = check(harness, STANDIN_CUPTI_FAULT=fault)
    if fault == "invalid":
        assert trace.one("SELECT COUNT(*) FROM gpu_work WHERE start_ns > end_ns") == 0
    if fault in ("late", "shuffle"):
        assert trace.one("SELECT COUNT(*) FROM all_copy WHERE gpu_ns IS NULL") == 0


def test_garbage_and_all_else(harness):
    check(harness, STANDIN_CUPTI_FAULT="garbage,shuffle,invalid,drop,hang-flush")


def test_taken(harness):
    trace = check(harness, STANDIN_CUPTI_TAKEN="Nsight Systems")
    state, detail = trace.rows("SELECT state, detail FROM coverage WHERE layer = 'cupti'")[0]
    assert state == "unavailable" and "another" in detail


def test_missing(harness, tmp_path):
    """No libcupti anywhere: the stand-ins that a program needs, and not that one."""
    import os

    from harness import BUILD, LIBRARY
    from truth import Trace
    libs = BUILD / "tests" / "standin"
    for library in [*libs.glob("lib*.so*"), *(libs / "libs").glob("lib*.so*")]:
        if library.is_file() and "cupti" not in library.name:
            (tmp_path / "libs").mkdir(exist_ok=True)
            os.symlink(library, tmp_path / "libs" / library.name)
    env = harness.environment(LAYOUTSPY_CUPTI="full", LD_LIBRARY_PATH=str(tmp_path / "libs"))
    outcome = harness.run([app(PROGRAM)], env, standin=False)
    harness.settle()
    assert outcome.status == 0, repr(outcome)
    trace = Trace(harness.out)
    path = trace.meta("cupti_path")
    state, detail = trace.rows("SELECT state, detail FROM coverage WHERE layer = 'cupti'")[0]
    assert LIBRARY.exists() and path is None, path
    assert state == "unavailable" and detail
