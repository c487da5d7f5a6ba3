"""The operands of cuDNN's calls: as the simulated device logged them, and as the trace has them."""

import json
import re
from collections import defaultdict

from table import ROOT
from truth import parse_log

DTYPES = {int(cudnn): name for name, cudnn in re.findall(
    r'^DTYPE\(\w+, "(\w+)", \d+, [-\d]+, (\d+),', (ROOT / "include/layoutspy/dtype.def").read_text(), re.M)}
# Operands without a descriptor.
PLAIN = {"workspace", "reserve", "weights", "dweights", "index", "lengths", "theta", "dtheta", "grid", "dgrid"}


# Calls with a descriptor for each step of these: they are looked up where the library has accepted them.
STEPS = re.compile(r"cudnn(Find)?RNN(Forward(Inference|Training)|Backward(Data|Weights))(AlgorithmEx)?$")
STEPPED = {"x", "y", "dx", "dy"}


def numbers(text):
    return [int(n) for n in text.split(",")] if text else []


def logged_operands(call):
    """A set of (role, address, dtype, dims, strides), of one line of the log."""
    operands = set()
    refused_steps = call.status != 0 and STEPS.match(call.name)
    for key, value in call.keys.items():
        role = key.split(".")[-1]
        if refused_steps and role in STEPPED:
            if value != "0":
                operands.add((role, int(value), "unknown", None, None))
        elif key + "_dims" in call.keys:
            dims = numbers(call.keys[key + "_dims"])
            known = (DTYPES[int(call.keys[key + "_type"])], json.dumps(dims),
                     json.dumps(numbers(call.keys[key + "_strides"]))) if dims else ("unknown", None, None)
            virtual = call.name.startswith("cudnnBackend") and value == "0"
            if not virtual and (dims or value != "0"):
                operands.add((role, int(value), *known))
        elif role in PLAIN and value != "0":
            operands.add((role, int(value), "unknown", None, None))
    return operands


def recorded_operands(trace, call):
    return {(r["role"], r["address"] % (1 << 64), r["dtype"],
             *(None if r[k] is None else json.dumps(json.loads(r[k])) for k in ("dims", "strides")))
            for r in trace.rows("SELECT * FROM tensor_operand WHERE call_id = ?", call)}


def recorded_calls(trace, library="cudnn"):
    return trace.rows("SELECT id, api, status, thread FROM every_library_call WHERE library = ? AND nested = 0"
                      " ORDER BY id", library)


def paired_calls(trace, log, library="cudnn"):
    """Each recorded call with its line of the log: in the order of its thread."""
    process, = [p for p in parse_log(log) if p.calls]
    names = {name for name, in trace.rows("SELECT name FROM api WHERE library = ? AND class = 'library_call'", library)}
    threads = [[c for c in calls if c.name in names] for calls in process.by_thread().values()]
    recorded = defaultdict(list)
    for row in recorded_calls(trace, library):
        recorded[row["thread"]].append(row)

    def in_order(lists, key):
        return sorted((calls for calls in lists if calls), key=lambda calls: [key(call) for call in calls])

    ours = in_order(recorded.values(), lambda row: (row["api"], row["status"]))
    theirs = in_order(threads, lambda call: (call.name, call.status))
    pairs = [pair for rows, calls in zip(ours, theirs) for pair in zip(rows, calls)]
    assert [(row["api"], row["status"]) for row, _ in pairs] == [(call.name, call.status) for _, call in pairs]
    assert len(pairs) == sum(map(len, ours)) == sum(map(len, theirs))
    return pairs


def assert_operands(trace, log):
    """Every operand in the log is in the trace, and no other one."""
    pairs = paired_calls(trace, log)
    for row, call in pairs:
        got, want = recorded_operands(trace, row["id"]), logged_operands(call)
        assert want <= got, (call, want - got, got - want)
        # The log stops at the first thing that is wrong, and where a line is full.
        assert got == want or call.status != 0 or "truncated" in call.keys, (call, got - want)
    return pairs
