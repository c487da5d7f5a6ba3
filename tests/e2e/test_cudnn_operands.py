"""What cuDNN was given: every operand that the simulated device logged is in the trace, equal, for
a program of the old API and one of the graph API; of refused calls too."""

import json

import pytest

from cudnn_truth import assert_operands, numbers, recorded_calls
from harness import app


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


@pytest.mark.parametrize("program", ["layers", "graph_api"])
def test_every_operand(harness, program):
    outcome = harness.same_with_and_without([app(program)])
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


def test_plans_outlive_their_graphs(harness):
    """Unique numbers, roles, directions; groups as the tensors tell them."""
    harness.record([app("graph_api"), "2"])
    trace = harness.trace()
    plans = [row["id"] for row in recorded_calls(trace) if row["status"] == 0]
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
