"""What cuDNN was given: every operand that the simulated device logged is in the trace, equal, for
a program of the old API and one of the graph API; of refused calls too."""

import json
import re
from collections import Counter

import pytest

from harness import app
from table import ROOT
from truth import parse_log

DTYPES = {int(cudnn): name for name, cudnn in re.findall(
    r'^DTYPE\(\w+, "(\w+)", \d+, [-\d]+, (\d+),', (ROOT / "include/layoutspy/dtype.def").read_text(), re.M)}
# Operands without a descriptor.
PLAIN = {"workspace", "reserve", "weights", "dweights", "index", "lengths", "theta", "dtheta", "grid", "dgrid"}


def numbers(text):
    return [int(n) for n in text.split(",")] if text else []


def logged_operands(call):
    """As (role, address, dtype, dims, strides) of one line of the log."""
    operands = Counter()
    for key, value in call.keys.items():
        role = key.split(".")[-1]
        if key + "_dims" in call.keys:
            dims = numbers(call.keys[key + "_dims"])
            known = (DTYPES[int(call.keys[key + "_type"])], json.dumps(dims),
                     json.dumps(numbers(call.keys[key + "_strides"]))) if dims else ("unknown", None, None)
            virtual = call.name == "cudnnBackendExecute" and value == "0"
            if not virtual and (dims or value != "0"):
                operands[role, int(value), *known] += 1
        elif role in PLAIN and value != "0":
            operands[role, int(value), "unknown", None, None] += 1
    return operands


def recorded_operands(trace, call):
    return Counter((r["role"], r["address"] % (1 << 64), r["dtype"],
                    *(None if r[k] is None else json.dumps(json.loads(r[k])) for k in ("dims", "strides")))
                   for r in trace.rows("SELECT * FROM tensor_operand WHERE call_id = ?", call))


def recorded_calls(trace):
    return trace.rows("SELECT id, api, status FROM every_library_call WHERE library = 'cudnn' AND nested = 0 ORDER BY id")


def assert_operands(harness, trace):
    process, = [p for p in parse_log(harness.log) if p.calls]
    wanted = [call for call in process.calls if call.name.startswith("cudnn")]
    calls = recorded_calls(trace)
    names = {row["api"] for row in calls}
    wanted = [call for call in wanted if call.name in names]
    assert [(row["api"], row["status"]) for row in calls] == [(call.name, call.status) for call in wanted]
    for row, call in zip(calls, wanted):
        got, want = recorded_operands(trace, row["id"]), logged_operands(call)
        unlogged = got - want
        assert not want - got, (call, want - got, unlogged)
        # The log stops at the first thing that is wrong; beside it only addresses of unknown tensors are told.
        assert not unlogged or call.status != 0, (call, unlogged)
    return list(zip(calls, wanted))


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
    pairs = assert_operands(harness, trace)
    assert_settings(trace, pairs)
    assert len(pairs) > 30


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
        assert_operands(harness, harness.trace())
