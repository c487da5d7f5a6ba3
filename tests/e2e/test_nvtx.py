"""NVTX ranges become phases: of every form, from every thread, with NVTX's own return values; and
findings name the phase they lie in. Each program has its NVTX from the headers alone or from
libnvToolsExt.so.1."""

import pytest

from harness import APPS, LIBRARY, app, site_matches

INJECT = {"NVTX_INJECTION64_PATH": LIBRARY}
SAYS = """before 0 1
loaded 1
a domain again is the same
domain 0 1, popped 1 0 -1
ids differ
worker 0 1, popped 1 0
"""
WITHOUT = """before -2 -2
loaded -2
a domain again is the same
domain -2 -2, popped -2 -2 -2
ids are equal
worker -2 -2, popped -2 -2
"""


@pytest.fixture(params=["", "_linked"], ids=["headers", "library"])
def suffix(request):
    if not (APPS / "nvtx_ranges").exists():
        pytest.skip("no NVTX headers here: the programs were not built")
    return request.param


@pytest.fixture
def program(suffix):
    return [app("nvtx_ranges" + suffix)]


@pytest.fixture
def recorded(harness, program):
    outcome = harness.record(program, more_env=INJECT)
    assert (outcome.status, outcome.out, outcome.err) == (0, SAYS, "")
    return harness


def phases(harness):
    return harness.trace().rows("SELECT name, domain, depth, thread, start_ns, end_ns, value FROM phase ORDER BY id")


def test_every_range_is_a_phase(recorded):
    rows = phases(recorded)
    main = recorded.trace().rows("SELECT thread.id FROM thread, meta WHERE key = 'pid' AND tid = value")[0][0]
    mine = [(name, domain, depth) for name, domain, depth, thread, *_ in rows if thread == main]
    texts = ["\u00e9" * 120, "Gr\u00f6\u00dfe \u6f22\u5b57 \U0001f600"]
    assert sorted(mine) == sorted(
        [("program", "", 0), ("loading", "", 1), ("left open", "", 1)] + 5 * [("round", "", 1), ("feed", "", 2)]
        + [("gemm", "my library", 0), ("inner gemm", "my library", 1)] + [(text, "", 1) for text in texts])
    others = {(name, depth) for name, _, depth, thread, *_ in rows if thread not in (main, None)}
    assert others == {("worker", 0), ("worker inner", 1)}
    started = {name: end for name, _, _, thread, _, end, _ in rows if thread is None}
    assert set(started) == {"span", "other"} and started["span"] and started["other"] is None
    assert {row[0] for row in rows if row[5] is None} == {"program", "left open", "other"}


def test_times_and_nesting(recorded):
    rows = {}
    for name, _, _, _, start, end, _ in phases(recorded):
        rows.setdefault(name, []).append((start, end))
    assert rows["program"] == [(0, None)]  # begun before the recording
    assert rows["loading"][0][0] == 0 and rows["loading"][0][1] > 0
    for (outer, outer_end), (inner, inner_end) in zip(rows["round"], rows["feed"]):
        assert outer <= inner <= inner_end <= outer_end
    copies = recorded.trace().rows("SELECT start_ns FROM copy ORDER BY id")
    assert len(copies) == 5
    for (copy,), (start, end) in zip(copies, rows["feed"]):
        assert start <= copy < end
    marks = recorded.trace().rows("SELECT text FROM mark WHERE kind = 6 ORDER BY id")
    assert [text for text, in marks] == ["inner gemm", "here", "th\u00e9re"]


def test_trace_is_whole_and_says_so(recorded):
    recorded.assert_true()
    assert recorded.trace().lost() == {}
    assert recorded.trace().one("SELECT state FROM coverage WHERE layer = 'nvtx'") == "on"


def test_findings_name_the_phase(recorded):
    found = [f for f in recorded.findings() if f["kind"] == "pageable-copy"]
    assert len(found) == 1 and site_matches(found[0]["site"], "nvtx_ranges.c", "feed", "feed")
    assert found[0]["evidence"]["nvtx_phase"] == {"name": "feed", "domain": "", "share": 1.0}
    text = recorded.layoutspy("report", recorded.out).out
    assert 'When: 100 % of it in the phase "feed".' in text


def test_threads_fork_and_signals(harness, suffix):
    outcome = harness.record([app("nvtx_threads" + suffix)], more_env=INJECT)
    assert (outcome.status, outcome.out, outcome.err) == (0, "child 0, wrong levels 0\n", "")
    counts = []
    for path in harness.traces():
        trace = harness.trace(path)
        assert trace.lost() == {}
        counts.append({row[0]: tuple(row)[1:] for row in trace.rows(
            "SELECT name, COUNT(*), SUM(end_ns IS NULL), MIN(start_ns) FROM phase GROUP BY name")})
    child, parent = sorted(counts, key=len)
    assert set(child) == {"program", "child"} and child["program"] == (1, 0, 0)
    assert parent["program"] == (1, 0, 0)
    assert parent["inner of thread"][:2] == parent["outer of thread"][:2] == (4 * 5 * 500, 0)
    assert parent["loop"][0] >= 20000 and parent["loop"][1] == 0


def test_run_sets_the_variable_where_it_is_unset(harness, program):
    command = [harness.program, "run", "-o", harness.out, "--", *harness.command(program)]
    env = harness.environment(preload=False, out=None)
    outcome = harness.run(command, env, standin=False)
    harness.settle()
    assert outcome.status == 0 and outcome.out.startswith(SAYS), repr(outcome)
    assert len(phases(harness)) > 10


def test_another_tool_stays_alone(harness, program):
    command = [harness.program, "run", "-o", harness.out, "--", *harness.command(program)]
    env = harness.environment(preload=False, out=None, NVTX_INJECTION64_PATH="/nowhere/tool.so")
    outcome = harness.run(command, env, standin=False)
    harness.settle()
    assert outcome.status == 0 and outcome.out.startswith(WITHOUT), repr(outcome)
    assert phases(harness) == []


def test_without_the_variable_there_are_no_phases(harness, program):
    outcome = harness.same_with_and_without(program)
    assert outcome.out == WITHOUT and phases(harness) == []
    assert harness.trace().rows("SELECT state FROM coverage WHERE layer = 'nvtx'") == []


def test_a_copy_that_is_not_preloaded_takes_nothing(harness, program):
    env = harness.environment(preload=False, out=None, **INJECT)
    outcome = harness.run(program, env, log=False)
    assert (outcome.status, outcome.out, outcome.err) == (0, WITHOUT, "")
    assert harness.traces() == []


def test_another_copy_of_the_library_hands_over(harness, program):
    copy = harness.folder / "copy.so"
    copy.write_bytes(LIBRARY.read_bytes())
    outcome = harness.record(program, more_env={"NVTX_INJECTION64_PATH": copy})
    assert (outcome.status, outcome.out, outcome.err) == (0, SAYS, "")
    assert len(phases(harness)) > 10
