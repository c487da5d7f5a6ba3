"""What cuDNN was given: every operand that the simulated device logged is in the trace, equal, for
a program of the old API and one of the graph API; of refused calls too."""

import json
import re

import pytest

from cudnn_truth import assert_operands, numbers, recorded_calls
from harness import app
from table import API


def assert_settings(trace, pairs):
    for row, call in pairs:
        details = [json.loads(r["detail"]) for r in trace.rows(
            "SELECT detail FROM library_setting WHERE kind = 'convolution' AND call_id = ?", row["id"])]
        if "pads" not in call.keys:
            assert details == [] or call.status != 0
            continue
        detail, = details
        assert detail["padding"] == numbers(call.keys["pads"])
        assert detail["padding_after"] == numbers(call.keys.get("post_pads", call.keys["pads"]))
        assert detail["stride"] == numbers(call.keys["conv_strides"])
        assert detail["dilation"] == numbers(call.keys["dilations"])
        if "groups" in call.keys:
            assert detail["groups"] == int(call.keys["groups"])


BEFORE9 = {"STANDIN_CUDNN": "8"}


@pytest.mark.parametrize("program", ["layers", "graph_api", "layers_before9"])
def test_every_operand(harness, program):
    env = BEFORE9 if program == "layers_before9" else {}
    without = harness.run([app(program)], harness.environment(preload=False, out=None, **env), log=False)
    outcome = harness.record([app(program)], more_env=env)
    assert outcome.same_as(without), f"{outcome} {without}"
    assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", ""), repr(outcome)
    harness.assert_true()
    trace = harness.trace()
    pairs = assert_operands(trace, harness.log)
    assert_settings(trace, pairs)
    assert len(pairs) > 30


def test_transforms_are_of_images(harness):
    """What cuDNN turns are images, unlike what a kernel copies: both sides are nchw or nhwc."""
    harness.record([app("layers")])
    rows = harness.trace().rows(
        "SELECT api, role, layout FROM tensor_operand AS o JOIN library_call AS c ON c.id = o.call_id"
        " WHERE api LIKE 'cudnnTransformTensor%' AND status = 0 ORDER BY c.id, position")
    assert rows
    assert {(role, layout) for _, role, layout in rows} == {("src", "nchw"), ("dst", "nchw"), ("dst", "nhwc")}
    assert {layout for api, role, layout in rows if api.endswith("Ex") and role == "dst"} == {"nhwc"}


def test_nets_of_before_9(harness):
    """Every row of what cuDNN 9 no longer has is called; the steps are one operand; what a setter does not say is not
    told."""
    harness.record([app("layers_before9")], more_env=BEFORE9)
    trace = harness.trace()
    text = (API / "library_before9.def").read_text()
    rows = set(re.findall(r"API_OPERANDS\(CUDNN, cudnnStatus_t, (\w+)", text))
    assert len(rows) == 12
    assert {row["api"] for row in recorded_calls(trace)} == rows
    shapes = [(r["dims"], r["strides"]) for r in trace.rows(
        "SELECT DISTINCT dims, strides FROM tensor_operand JOIN library_call ON library_call.id = call_id"
        " WHERE api = 'cudnnRNNForwardTraining' AND role = 'x' ORDER BY dims")]
    assert shapes == [("[1,8,8]", "[64,8,1]"), ("[4,3,8]", "[24,8,1]")]
    directions = trace.rows("SELECT DISTINCT direction FROM tensor_operand WHERE role = 'dweights'")
    assert [row["direction"] for row in directions] == ["inout"]
    details = {r["detail"] for r in trace.rows("SELECT DISTINCT detail FROM library_setting WHERE kind = 'rnn'")}
    rnn = '{"cell":2,"direction":0,"input_size":null,"hidden_size":16,"projection_size":%d,"layers":1}'
    assert details == {rnn % 16, rnn % 8}


def test_plans_in_graphs_of_cuda(harness):
    harness.record([app("graph_api"), "1"])
    trace = harness.trace()
    calls = trace.rows("SELECT id, api FROM library_call WHERE api LIKE 'cudnnBackend%CudaGraph' AND status = 0 ORDER BY id")
    assert [row["api"] for row in calls] == ["cudnnBackendPopulateCudaGraph", "cudnnBackendUpdateCudaGraph"]
    for row in calls:
        roles = [r["role"] for r in trace.rows(
            "SELECT role FROM tensor_operand WHERE call_id = ? AND address != 0 ORDER BY position", row["id"])]
        assert roles == ["x", "w", "y", "workspace"]


def test_plans_outlive_their_graphs(harness):
    """Unique numbers, roles, directions; groups as the tensors tell them."""
    harness.record([app("graph_api"), "2"])
    trace = harness.trace()
    plans = [row["id"] for row in recorded_calls(trace) if row["status"] == 0 and row["api"] == "cudnnBackendExecute"]
    assert len(plans) == 2 * 9

    def seen(call):
        return [(r["role"], r["uid"], r["direction"], r["layout"]) for r in trace.rows(
            "SELECT * FROM tensor_operand WHERE call_id = ? ORDER BY position", call)]

    x, w, y, b = (ord(c) for c in "xwyb")
    for first in (0, 9):
        assert seen(plans[first])[:3] == [("x", x, "in", "nchw"), ("w", w, "in", "nchw"), ("y", y, "out", "nchw")]
        assert ("x", x, "in", "nhwc") in seen(plans[first + 1])
        assert [(r, u) for r, u, *_ in seen(plans[first + 5])] == [
            ("x", x), ("w", w), ("b", b), ("y", y), ("workspace", None)][:len(seen(plans[first + 5]))]
        assert [(r, u, d) for r, u, d, _ in seen(plans[first + 6])][:3] == [("a", 1, "in"), ("b", 2, "in"), ("c", -3, "out")]
        assert {r for r, *_ in seen(plans[first + 7])} >= {"q", "k", "v", "o", "scale"}
        assert {(r, d) for r, _, d, _ in seen(plans[first + 8])} >= {("mean", "out"), ("variance", "out"), ("bias", "in")}
        groups = [json.loads(r["detail"])["groups"] for r in trace.rows(
            "SELECT detail FROM library_setting WHERE call_id IN (?, ?) ORDER BY call_id", plans[first], plans[first + 2])]
        assert groups == [1, 4]


@pytest.mark.parametrize("program, fault", [
    ("layers", "cudnnSetTensor4dDescriptor:2:2000"), ("layers", "cudnnSetFilter4dDescriptor:2:3000"),
    ("layers", "cudnnCreateTensorDescriptor:3:4000"), ("layers", "cudnnDestroyTensorDescriptor:1:2000"),
    ("layers", "cudnnPoolingBackward:1:5000"), ("graph_api", "cudnnBackendSetAttribute:9:3000"),
    ("graph_api", "cudnnBackendFinalize:5:2000"), ("graph_api", "cudnnBackendGetAttribute:1:4000"),
    ("graph_api", "cudnnBackendDestroyDescriptor:7:2000"), ("graph_api", "cudnnBackendExecute:6:5000")])
def test_calls_that_fail(harness, program, fault):
    """The program sees the library's answer, and what is recorded is what holds."""
    without = harness.run([app(program)], harness.environment(preload=False, out=None, STANDIN_FAIL=fault), log=False)
    outcome = harness.record([app(program)], more_env={"STANDIN_FAIL": fault})
    assert outcome.same_as(without), f"{outcome} {without}"
    assert outcome.status == 1
    if (harness.out).exists():
        harness.assert_true()
        assert_operands(harness.trace(), harness.log)
