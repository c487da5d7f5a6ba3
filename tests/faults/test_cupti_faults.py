"""A CUPTI that hangs, fails, lies or is missing: the program ends as without us, in time, what the hooks saw is in
the trace, and what CUPTI did not tell is said there."""

import os
import re
import time

import pytest

from harness import BUILD, ROOT, app
from truth import Trace

NEEDS = dict(reversed(pair) for pair in
             re.findall(r"^FN\((\w+), (\w+),", (ROOT / "cupti" / "functions.def").read_text(), re.M))
LATEST = 2.0  # s, from the program's own end to the process's
PROGRAM = "leaky"
KINDS = ("kernel", "copy", "memset")

# Which of the functions that are needed may fail, and what comes out: nothing is recorded, or what there was is
# lost, or all is there all the same. Of those that may be missing all is there.
REFUSES = {"cuptiSubscribe", "cuptiEnableCallback", "cuptiGetCallbackName", "cuptiGetTimestamp",
           "cuptiActivityRegisterCallbacks", "cuptiActivityEnable"}
LOSES = {"cuptiActivityFlushAll", "cuptiActivityGetNextRecord"}
HARMLESS = {"cuptiUnsubscribe", "cuptiActivityDisable", "cuptiGetVersion"}


def record(harness, **env):
    """How long the process took, and what it said."""
    start = time.monotonic()
    outcome = harness.record([app(PROGRAM)], more_env=dict(env, LAYOUTSPY_CUPTI="full", STANDIN_LOG_GPU="1"))
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


def states(trace, layer="cupti"):
    """What coverage says of the layer: state -> all details of it."""
    said = {}
    for state, detail in trace.rows("SELECT state, COALESCE(detail, '') FROM coverage WHERE layer = ?", layer):
        said.setdefault(state, []).append(detail)
    return {state: "; ".join(details) for state, details in said.items()}


def noted(harness):
    """How much of each kind the device did."""
    text = harness.log.read_text()
    return {kind: len(re.findall(rf"^#gpu \d+ kind={kind} ", text, re.M)) for kind in KINDS}


def seen(trace, valid=True):
    """How much of it is in the trace, with times or without."""
    where = "status <> 'invalid'" if valid else "status = 'invalid'"
    counts = dict(trace.rows(f"SELECT kind, SUM(count) FROM gpu_count WHERE {where} GROUP BY kind"))
    return {kind: counts.get(kind, 0) for kind in KINDS}


def check_whole(harness, trace):
    assert states(trace).keys() == {"on"}, states(trace)
    assert states(trace, "gpu-times").keys() == {"on"}, states(trace, "gpu-times")
    assert seen(trace) == noted(harness)
    assert trace.lost() == {}


def check_nothing(harness, trace):
    """No GPU times at all, of any call."""
    assert seen(trace) == seen(trace, valid=False) == dict.fromkeys(KINDS, 0)
    assert trace.one("SELECT COUNT(*) FROM all_copy WHERE gpu_ns IS NOT NULL") == 0


def check_untold(harness, trace):
    """Nothing was handed over, and the trace says of how many calls."""
    check_nothing(harness, trace)
    assert "cuptiActivityFlushAll" in states(trace)["partial"]
    launches, copies = (trace.one(f"SELECT COUNT(*) FROM api_call WHERE class = '{cls}'") for cls in ("launch", "copy"))
    assert f"{launches} launches and {copies} copies have no GPU times" in states(trace, "gpu-times")["partial"]


def test_every_function_is_judged():
    must = {name for name, need in NEEDS.items() if need == "MUST"}
    assert must == REFUSES | LOSES | HARMLESS


@pytest.mark.parametrize("function", NEEDS)
def test_each_call_fails(harness, function):
    trace = check(harness, STANDIN_FAIL=f"{function}:*:999")
    if function in REFUSES:
        assert states(trace).keys() == {"unavailable"}
        assert function in states(trace)["unavailable"] and "999" in states(trace)["unavailable"]
        check_nothing(harness, trace)
    elif function == "cuptiActivityFlushAll":
        check_untold(harness, trace)
    elif function == "cuptiActivityGetNextRecord":
        assert "cuptiActivityGetNextRecord gave 999" in states(trace)["partial"]
        assert trace.lost().keys() == {"gpu-records"}
        check_nothing(harness, trace)
    else:
        check_whole(harness, trace)
    if function == "cuptiGetVersion":
        assert trace.meta("cupti_version") == "unknown"


@pytest.mark.parametrize("which, kind, word", [(1, "copy", "copies"), (3, "memset", "memsets"), (4, "kernel", "kernels")])
def test_one_kind_is_refused(harness, which, kind, word):
    trace = check(harness, STANDIN_FAIL=f"cuptiActivityEnable:{which}:999")
    assert states(trace).keys() == {"partial"}
    assert f"no GPU times of {word}: cuptiActivityEnable gave 999" in states(trace)["partial"]
    assert seen(trace) == dict(noted(harness), **{kind: 0})


@pytest.mark.parametrize("name", ["late", "shuffle", "slow-callback"])
def test_all_is_there_all_the_same(harness, name):
    check_whole(harness, check(harness, STANDIN_CUPTI_FAULT=name))


@pytest.mark.parametrize("name", ["hang-flush", "unload"])
def test_nothing_is_handed_over(harness, name):
    check_untold(harness, check(harness, STANDIN_CUPTI_FAULT=name))


def test_times_that_are_none(harness):
    trace = check(harness, STANDIN_CUPTI_FAULT="invalid")
    valid, wrong, all_of_it = seen(trace), seen(trace, valid=False), noted(harness)
    assert {kind: valid[kind] + wrong[kind] for kind in KINDS} == all_of_it
    assert sum(wrong.values()) > sum(all_of_it.values()) // 10
    assert "no valid times" in states(trace, "gpu-times")["partial"]
    assert trace.one("SELECT COUNT(*) FROM gpu_work WHERE start_ns > end_ns OR start_ns < 0") == 0
    assert trace.one("SELECT SUM(untimed) FROM kernel_total") == wrong["kernel"]
    assert trace.one("SELECT SUM(total_ns) FROM gpu_count WHERE status = 'invalid'") == 0


def test_garbage(harness):
    trace = check(harness, STANDIN_CUPTI_FAULT="garbage")
    assert "cuptiActivityGetNextRecord gave" in states(trace)["partial"]
    assert trace.lost().get("gpu-records", 0) > 0


def test_dropped_records_are_counted(harness):
    trace = check(harness, STANDIN_CUPTI_FAULT="drop")
    all_of_it, there = noted(harness), seen(trace)
    missing = sum(all_of_it.values()) - sum(there.values())
    # Others (of memory, of waits) are dropped too.
    assert 0 < missing <= trace.lost()["gpu-records"]
    assert all(there[kind] <= all_of_it[kind] for kind in KINDS)


def test_kernels_without_names(harness):
    """They have rows, times and launches, and count."""
    trace = check(harness, STANDIN_CUPTI_FAULT="no-kernel-names")
    check_whole(harness, trace)
    kernels = noted(harness)["kernel"]
    assert kernels > 0
    assert [tuple(row) for row in trace.rows("SELECT name, COUNT(*), COUNT(call_id) FROM kernel_run GROUP BY name")] == \
        [(None, kernels, kernels)]
    assert [tuple(row) for row in trace.rows("SELECT name, count FROM gpu_time")] == [(None, kernels)]


def test_garbage_and_all_else(harness):
    trace = check(harness, STANDIN_CUPTI_FAULT="garbage,shuffle,invalid,drop,hang-flush")
    check_untold(harness, trace)


def test_taken(harness):
    trace = check(harness, STANDIN_CUPTI_TAKEN="Nsight Systems")
    assert states(trace).keys() == {"unavailable"} and "another" in states(trace)["unavailable"]
    check_nothing(harness, trace)


def test_missing(harness, tmp_path):
    """No libcupti of the simulated device: the stand-ins that a program needs, and not that one. The loader may
    find a real one, which has no driver here."""
    libs = BUILD / "tests" / "standin"
    for library in [*libs.glob("lib*.so*"), *(libs / "libs").glob("lib*.so*")]:
        if library.is_file() and "cupti" not in library.name:
            (tmp_path / "libs").mkdir(exist_ok=True)
            os.symlink(library, tmp_path / "libs" / library.name)
    env = harness.environment(LAYOUTSPY_CUPTI="full", LD_LIBRARY_PATH=str(tmp_path / "libs"))
    start = time.monotonic()
    outcome = harness.run([app(PROGRAM)], env, standin=False)
    assert outcome.status == 0, repr(outcome)
    assert time.monotonic() - start < LATEST + 20
    harness.settle()
    trace = Trace(harness.out)
    assert trace.meta("cupti_path") is None
    assert states(trace).keys() == {"unavailable"}
    assert re.search("no libcupti|cuptiSubscribe failed: 999", states(trace)["unavailable"])
