"""`layoutspy layouts`: what library calls were given, against the trace's own views and by hand."""

import json
import os

import pytest

from cli import INPUT, OK, OUTPUT, USAGE, layoutspy, one_line
from harness import app
from synthetic import Trace


def told(path):
    result = layoutspy("layouts", "--json", path)
    assert result.returncode == OK and result.stderr == "", result.stderr
    return json.loads(result.stdout)


def shown(path, *options):
    result = layoutspy("layouts", *options, path)
    assert result.returncode == OK and result.stderr == "", result.stderr
    return result.stdout


@pytest.fixture(params=["layers", "graph_api"])
def recorded(harness, request):
    outcome = harness.record([app(request.param)], more_env={"LAYOUTSPY_CUPTI": "full"})
    assert outcome.status == 0, repr(outcome)
    return harness


def test_every_call_and_operand_is_there(recorded):
    trace, all_of_it = recorded.trace(), told(recorded.out)
    calls = {(site["site"], site["api"]): site for site in all_of_it["sites"]}
    for row in trace.rows("SELECT site, api, COUNT(*) AS calls, SUM(gpu_ns) AS gpu_ns FROM library_call GROUP BY 1, 2"):
        site = calls.pop((row["site"], row["api"]))
        assert (site["calls"], site["gpu_ns"]) == (row["calls"], row["gpu_ns"])
        given = {(o["role"], json.dumps(o["dims"]), json.dumps(o["strides"]), o["layout"], o["dtype"]): 0
                 for o in site["operands"]}
        for o in site["operands"]:
            given[(o["role"], json.dumps(o["dims"]), json.dumps(o["strides"]), o["layout"], o["dtype"])] += o["count"]
        said = {}
        for o in trace.rows("SELECT role, dims, strides, layout, dtype, COUNT(*) AS n FROM tensor_operand JOIN library_call"
                            " ON id = call_id WHERE site = ? AND api = ? AND address <> 0 GROUP BY 1, 2, 3, 4, 5",
                            row["site"], row["api"]):
            lists = [json.dumps(json.loads(o[key])) if o[key] else "null" for key in ("dims", "strides")]
            said[(o["role"], *lists, o["layout"], o["dtype"])] = o["n"]
        assert given == said
    assert not calls
    assert all_of_it["kernel_ns"] == trace.one("SELECT SUM(total_ns) FROM kernel_total")


def test_a_person_sees_the_same(recorded):
    text, whole = shown(recorded.out, "--all"), told(recorded.out)
    for site in whole["sites"]:
        assert site["api"] in text and site["site"] in text
        for o in site["operands"]:
            assert o["layout"] in text
            if o["dims"]:
                assert json.dumps(o["dims"], separators=(",", ":")) in text
    assert len(shown(recorded.out).splitlines()) <= len(text.splitlines())


def test_of_nothing(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path):
        pass
    assert "No library call" in shown(path)
    whole = told(path)
    assert whole["sites"] == whole["conversions"] == whole["operators"] == [] and whole["kernel_ns"] is None


def test_why_there_are_no_times(harness):
    outcome = harness.record([app("layers")], more_env={"LAYOUTSPY_CUPTI": "off"})
    assert outcome.status == 0, repr(outcome)
    text = shown(harness.out)
    assert "LAYOUTSPY_CUPTI=off" in text and "CUPTI was not there" not in text
    assert told(harness.out)["graph_launches"] == 0 and "CUDA graph" not in text


def test_launches_of_graphs(tmp_path):
    """What they replay is here once."""
    with Trace(tmp_path / "t.db") as trace:
        trace.db.execute("INSERT INTO api(id, library, name, class) VALUES(99, 'cudart', 'cudaGraphLaunch', 'graph')")
        for n in range(3):
            trace.db.execute("INSERT INTO call(id, api, start_ns, duration_ns, thread, status, flags)"
                             " VALUES(?, 99, ?, 10, 1, 0, 0)", (1000 + n, 1000 * n))
            trace.db.execute("INSERT INTO gpu_work(kind, status, start_ns, end_ns, call) VALUES(8, 2, ?, ?, ?)",
                             (1000 * n, 1000 * n + 500, 1000 + n))
    whole = told(tmp_path / "t.db")
    assert (whole["graph_launches"], whole["graph_ns"]) == (3, 1500)
    text = " ".join(shown(tmp_path / "t.db").split())
    assert "3 launches of CUDA graphs ran again what was captured, in 1.50 us of the GPU." in text


def test_wrong_usage(tmp_path):
    one_line(layoutspy("layouts"), USAGE)
    one_line(layoutspy("layouts", "a", "b"), USAGE)
    one_line(layoutspy("layouts", tmp_path / "none.db"), INPUT)
    (tmp_path / "text.db").write_text("no trace")
    one_line(layoutspy("layouts", tmp_path / "text.db"), INPUT)


def test_output_that_cannot_be_written(tmp_path):
    path = tmp_path / "t.db"
    with Trace(path):
        pass
    with open("/dev/full", "w") as full:
        result = layoutspy("layouts", path, stdout=full, stderr=-1)
    assert result.returncode == OUTPUT and result.stderr.count("\n") == 1
    assert os.path.exists(path)
