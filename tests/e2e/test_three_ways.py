"""The hooks alone, CUPTI alone, and both: the same allocations and copies."""

from collections import Counter

import pytest

from harness import APPS, LIBRARY, app, site_matches

MODES = {
    "hooks": {"LAYOUTSPY_CUPTI": "off"},
    "cupti": {"LAYOUTSPY_HOOKS": "off", "LAYOUTSPY_CUPTI": "full"},
    "both": {"LAYOUTSPY_CUPTI": "full"},
}
PROGRAMS = ["everycall", "leaky", "managed", "async_pools", "peers", "mapped", "small_copies", "graphs"]


def allocations(trace):
    """How large another process's memory is only the driver says, whom a callback cannot ask."""
    return Counter(tuple(row) for row in trace.rows(
        "SELECT kind, device, CASE kind WHEN 'ipc' THEN NULL ELSE size END, api, free_api, end_ns IS NULL"
        " FROM all_allocation"))


def copies(trace):
    """Of a batch that failed, CUPTI alone knows what had been copied by then. What a library's call copies, the real
    one does by the runtime, the simulated one by itself, unseen."""
    return Counter(tuple(row) for row in trace.rows(
        "SELECT CASE status WHEN 0 THEN direction || src_kind || dst_kind END, bytes, api, is_async, status"
        " FROM all_copy WHERE api NOT LIKE 'cublas%'"))


# Without hooks nothing starts the recording but the driver's way in.
def recorded(harness, program, mode, out):
    env = dict(MODES[mode], CUDA_INJECTION64_PATH=str(LIBRARY))
    outcome = harness.record([app(program)], out=out, more_env=env, devices=2)
    assert outcome.status == 0, repr(outcome)
    trace = harness.trace(harness.folder / out)
    assert trace.lost() == {}
    return trace


@pytest.mark.parametrize("program", PROGRAMS)
def test_three_ways(harness, program):
    if not (APPS / program).exists():
        pytest.fail(f"{program} is not built")
    traces = {mode: recorded(harness, program, mode, f"{mode}.db") for mode in MODES}
    for mode in ("cupti", "both"):
        assert traces[mode].one("SELECT state FROM coverage WHERE layer = 'cupti'") == "on"
        hooks_are_told = traces[mode].one("SELECT COUNT(*) FROM coverage WHERE layer IN ('cudart', 'driver')")
        assert hooks_are_told == (2 if mode == "both" else 0)
        for facts in (allocations, copies):
            hooks, other = facts(traces["hooks"]), facts(traces[mode])
            assert other == hooks, f"{mode}: more {other - hooks}, less {hooks - other}"


# Programs that no preload sees: their runtime is inside them. By LD_PRELOAD the driver's way in has to be
# set too (`layoutspy run` does); it does alone as well.
@pytest.mark.parametrize("preload", [True, False], ids=["preloaded", "injected"])
def test_static_runtime(harness, preload):
    env = harness.environment(preload=preload, LAYOUTSPY_CUPTI="full", CUDA_INJECTION64_PATH=str(LIBRARY))
    outcome = harness.run([app("static_cudart")], env, preload_standin=False)
    harness.settle()
    assert outcome.same_as(harness.plain([app("static_cudart")], preload_standin=False)), repr(outcome)
    counts = harness.assert_true()
    assert counts["recorded"] > 20
    trace = harness.trace()
    assert trace.one("SELECT COUNT(*) FROM api_call WHERE flags & 8") == counts["recorded"]
    sites = [finding["site"] for finding in harness.findings() if finding["kind"] == "leak"]
    assert len(sites) == 1 and site_matches(sites[0], "static_cudart.c", "leak", "leak"), sites


def test_static_runtime_by_run(harness):
    done = harness.layoutspy("run", "-o", harness.out, "--", *harness.command([app("static_cudart")]),
                             env=harness.environment(preload=False, out=None, LAYOUTSPY_CUPTI="full"))
    assert done.status == 0, repr(done)
    harness.settle()
    harness.assert_true()


def test_kernel_sample(harness):
    """One run in four has times; the launches are all there."""
    outcome = harness.record([app("leaky")], more_env={"LAYOUTSPY_CUPTI": "full", "LAYOUTSPY_KERNEL_SAMPLE": "4"})
    assert outcome.status == 0, repr(outcome)
    harness.assert_true()
    trace = harness.trace()
    launches = trace.one("SELECT COUNT(*) FROM api_call WHERE class = 'launch'")
    assert trace.one("SELECT COUNT(*) FROM kernel_run") == (launches + 3) // 4
    assert "one run in 4" in trace.one("SELECT detail FROM coverage WHERE layer = 'kernels' AND state = 'partial'")


def test_copies_alone(harness):
    outcome = harness.record([app("leaky")], more_env={"LAYOUTSPY_CUPTI": "copies"})
    assert outcome.status == 0, repr(outcome)
    harness.assert_true()
    trace = harness.trace()
    assert trace.one("SELECT COUNT(*) FROM kernel_run") == 0
    assert trace.one("SELECT COUNT(*) FROM all_copy WHERE gpu_ns IS NULL") == 0


def test_cost_measured_in_the_run(harness):
    """Of the marked steps one in three is left out; the others are as long as they are."""
    outcome = harness.record([app("marked_steps"), "60"], more_env={"LAYOUTSPY_CUPTI": "full", "LAYOUTSPY_MEASURE": "3"})
    assert (outcome.status, outcome.out) == (0, "60 steps\n"), repr(outcome)
    trace = harness.trace()
    with_, without = (int(trace.meta(f"cost.steps_{word}") or 0) for word in ("with", "without"))
    assert 30 <= with_ <= 40 and 15 <= without <= 20, (with_, without)
    for word in ("with", "without"):
        assert 1_000_000 < int(trace.meta(f"cost.step_{word}_ns")) < 50_000_000
    copies = trace.one("SELECT COUNT(*) FROM all_copy")
    assert 60 * 4 - 4 * (without + 2) <= copies < 60 * 4, copies
    info = harness.layoutspy("info", harness.out)
    assert "times as long as without recording" in info.out
    assert "LAYOUTSPY_MEASURE" in info.out


def test_ends_in_a_step_that_is_left_out(harness):
    """The program ends itself, which is no crash, though nothing is recorded at that moment."""
    outcome = harness.record([app("marked_steps"), "60"], more_env={"LAYOUTSPY_CUPTI": "full", "LAYOUTSPY_MEASURE": "61"})
    assert outcome.status == 0, repr(outcome)
    trace = harness.trace()
    assert trace.one("SELECT COUNT(*) FROM live_allocation") == 1 # its end is in the last step
    assert trace.meta("ended") == "exit"
