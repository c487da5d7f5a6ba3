"""`layoutspy census` and the detector storage-held-by-views, on traces made by hand."""

import json
import os
import re

import pytest

from synthetic import Trace

MIB = 1 << 20
GLOBAL, LOCAL, RAISED, GRAPH, LOST = 1, 2, 4, 8, 16
S = 1_000_000_000


class Census:
    """A census of a trace: storages with a block each, allocated at its site at `start`."""

    def __init__(self, trace, number=1, at=S // 2, end=None, reason=2, state=2, detail=None, oom=None):
        self.trace, self.number, self.storages, self.tensors, self.at = trace, number, 0, 0, at
        trace.db.execute("INSERT INTO census VALUES(?,?,?,?,?,?,?,?,?,?)",
                         (number, at, None if state == 1 else end or at + 5_000_000, reason, oom, state,
                          1000, 10, 3, detail))

    def storage(self, bytes, *tensors, start=1000, site="net.py:1 build", graph=0):
        """tensors: (bytes, path or paths, held), of float32 elements; None of path: no path."""
        self.storages += 1
        trace = self.trace
        trace.address += (bytes + 511) // 512 * 512 + 512
        call = trace.call("cudaLaunchKernel", start, stack=trace.stack(site))
        trace.db.execute("INSERT INTO block(id, start_ns, device, address, size, stack) VALUES(?,?,0,?,?,?)",
                         (call, start, trace.address, bytes, trace.stack(site)))
        trace.db.execute("INSERT INTO census_storage VALUES(?,?,0,?,?,?)",
                         (self.number, self.storages, trace.address, bytes, graph))
        offset = 0
        for size, paths, held in tensors:
            self.tensors += 1
            paths = [paths] if isinstance(paths, str) else list(paths or ())
            trace.db.execute("INSERT INTO census_tensor VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                             (self.number, self.tensors, self.storages, 0x1000 + self.tensors, offset, size,
                              "float32", "torch.Tensor", f"[{size // 4}]", "[1]", 1, 0, size != bytes, held,
                              len(paths)))
            offset += size // 4
            for path in paths:
                trace.db.execute("INSERT INTO census_path VALUES(?,?,?)", (self.number, self.tensors, path))


@pytest.fixture
def trace(harness):
    with Trace(harness.out) as made:
        made.memory(0, 1024 * MIB)
        yield made


def steps(trace, begins):
    for number, begin in enumerate(begins):
        trace.db.execute("INSERT INTO step(id, loop, source, start_ns, end_ns) VALUES(?, 1, 'optimizer', ?, ?)",
                         (number + 1, begin, begin + 1000))


def found(harness, trace, **how):
    trace.db.commit()
    return [f for f in harness.findings(**how) if f["kind"] == "storage-held-by-views"]


def one(harness, trace):
    findings = found(harness, trace)
    assert len(findings) == 1, findings
    return findings[0]


def skipped(harness, trace):
    trace.db.commit()
    return {s["kind"]: s["reason"] for s in harness.report()["skipped"]}.get("storage-held-by-views")


# ---- the command ----------------------------------------------------------------------------


def test_shows_storages_by_bytes(harness, trace):
    census = Census(trace)
    for layer in range(12):
        census.storage(4 * MIB, (4 * MIB, f"model.layers.{layer}.weight", GLOBAL))
    census.storage(60 * MIB, (60 * MIB, ["big", "self.big"], LOCAL), site="net.py:7 load", graph=MIB)
    trace.db.commit()
    outcome = harness.layoutspy("census", harness.out)
    assert (outcome.status, outcome.err) == (0, "")
    text = outcome.out
    assert "census 1, asked for, 500 ms after the start, in 5.00 ms" in text
    assert "108 MiB in 13 storages; 10 device tensors among 1,000 objects, 3 graph nodes" in text
    lines = text.splitlines()
    big = next(n for n, line in enumerate(lines) if "60.0 MiB" in line)
    layers = next(n for n, line in enumerate(lines) if "48.0 MiB" in line)
    assert big < layers
    assert "1.00 MiB behind it in autograd's graph" in lines[big] and "net.py:7 load" in lines[big]
    assert lines[big + 1].split() == ["big", "and", "1", "other", "path"]
    assert "12 storages" in lines[layers] and "model.layers.*.weight" in lines[layers + 1]
    assert "float32 [1048576]" in lines[layers + 2]


def test_json(harness, trace):
    census = Census(trace, reason=1, state=3, detail="2 s were over")
    census.storage(4096, (4096, ["a", "b[3]"], GLOBAL | GRAPH), (64, "c", LOCAL), graph=512)
    census.storage(512, (512, None, LOST))
    Census(trace, number=2, reason=3, state=4, detail="no Python")
    trace.db.commit()
    shown, = json.loads(harness.layoutspy("census", "--json", harness.out).out)["census"]
    assert {k: shown[k] for k in ("id", "reason", "state", "detail", "objects", "tensors", "nodes", "bytes")} == {
        "id": 1, "reason": "oom", "state": "cut", "detail": "2 s were over", "objects": 1000, "tensors": 10,
        "nodes": 3, "bytes": 4608}
    large, small = shown["storages"]
    assert (large["bytes"], large["tensors"], large["views"], large["held_by_graph"]) == (4096, 2, 1, 512)
    assert large["paths"] == ["a", "b[3]", "c"] and large["site"] == "net.py:1 build"
    assert large["held"] == ["global", "local", "graph"]
    assert large["tensor_list"][1] == {
        "object": 0x1002, "class": "torch.Tensor", "dtype": "float32", "dims": [16], "strides": [1], "bytes": 64,
        "contiguous": True, "requires_grad": False, "view": True, "held": ["local"], "path_count": 1,
        "paths": ["c"]}
    assert small["paths"] == [] and small["held"] == ["cycle"]
    every = json.loads(harness.layoutspy("census", "--json", "--all", harness.out).out)["census"]
    assert [(c["id"], c["state"]) for c in every] == [(1, "cut"), (2, "failed")]


def test_each_state_is_told(harness, trace):
    Census(trace, number=1, state=1).storage(512, (512, "x", LOCAL))
    Census(trace, number=2, state=4, detail="the interpreter is not CPython")
    Census(trace, number=3, state=3, detail="memory ran out").storage(512, (512, None, LOST))
    trace.db.commit()
    text = harness.layoutspy("census", "-a", harness.out).out
    assert "It never ended" in text and "It could not run: the interpreter is not CPython" in text
    assert "It was cut short: memory ran out" in text and "only in a reference cycle" in text
    assert "no path leads to it" in text


def test_no_census(harness, trace):
    trace.db.commit()
    outcome = harness.layoutspy("census", harness.out)
    assert outcome.status == 0 and outcome.out.startswith("No census in this trace.")
    assert json.loads(harness.layoutspy("census", "--json", harness.out).out) == {"census": []}


@pytest.mark.parametrize("arguments, status, words", [
    ([], 2, "no PID or TRACE given"),
    (["a", "b"], 2, "'b' is one word too many"),
    (["--wait", "soon", "1"], 2, "'soon' is no number of seconds"),
    (["--wait", "-1", "1"], 2, "is no number of seconds"),
    (["missing.db"], 3, "there is no such trace"),
    (["4194304"], 3, "process 4194304: there is no such process"),
    (["99999999999999999999"], 3, "there is no such process"),
    ([str(os.getpid())], 3, "is not recorded; start it by `layoutspy run`"),
])
def test_errors_are_one_line(harness, arguments, status, words):
    outcome = harness.layoutspy("census", *arguments)
    assert outcome.status == status and words in outcome.err
    assert outcome.out == "" and len(outcome.err.splitlines()) == 1


def test_file_named_by_a_number(harness, trace):
    Census(trace).storage(512, (512, "x", LOCAL))
    trace.db.commit()
    harness.out.rename(harness.folder / "123")
    assert "1 storage" in harness.layoutspy("census", "./123").out


# ---- the detector ---------------------------------------------------------------------------


def test_healthy_model_has_no_finding(harness, trace):
    census = Census(trace, at=900_000_000)
    steps(trace, range(100_000_000, 900_000_000, 100_000_000))
    for layer in range(8):
        census.storage(MIB, (MIB, [f"model.layers.{layer}.weight", f"optimizer.param_groups[0]['params'][{layer}]"], 3))
        census.storage(MIB, (MIB, f"optimizer.state[{layer}]['exp_avg']", 3))
        # q, k and v, and a cache in use whose views cover it
        census.storage(3 * MIB, *[(MIB, f"cache[{layer}].{name}", LOCAL) for name in "qkv"], start=880_000_000)
    # the running step: a slice, and a loss with its graph
    census.storage(64 * MIB, (MIB, "last", LOCAL), start=880_000_000)
    census.storage(512, (512, "loss", LOCAL | GLOBAL), start=890_000_000, graph=400 * MIB)
    census.storage(300 * MIB, (300 * MIB, None, GRAPH), start=885_000_000)
    assert found(harness, trace) == []


def test_list_of_slices(harness, trace):
    census = Census(trace, at=900_000_000)
    steps(trace, range(100_000_000, 900_000_000, 100_000_000))
    for n in range(8):  # and the tensor that it is a view of, which lives in the view alone
        census.storage(16 * MIB, (16 * MIB // 64, f"main.<locals>.losses[{n}]", LOCAL), (16 * MIB, None, 0),
                       start=150_000_000 + n * 100_000_000, site="train.py:9 step")
    finding = one(harness, trace)
    assert finding["severity"] == "problem" and finding["site"] == "train.py:9 step"
    assert finding["count"] == 8 and finding["bytes"] == finding["gain_bytes"] == 8 * (16 * MIB - 16 * MIB // 64)
    assert "8 small views of 2.00 MiB keep 128 MiB alive" in finding["title"]
    assert "main.<locals>.losses[*]" in finding["title"] and "float32 [65536]" in finding["title"]
    assert ".clone()" in finding["advice"]
    evidence = finding["evidence"]
    assert evidence["shape"] == "views" and evidence["confidence"] == "seen"
    assert evidence["used_bytes"] == 2 * MIB and len(evidence["rows"]) == 5


@pytest.mark.parametrize("start, severity", [(100_000_000, "problem"), (490_000_000, "info")])
def test_one_slice_without_steps(harness, trace, start, severity):
    """Kept for long, or not known to be."""
    Census(trace).storage(100 * MIB, (MIB, "hidden", LOCAL), start=start)
    finding = one(harness, trace)
    assert finding["severity"] == severity, finding
    assert "1 small view of 1.00 MiB keeps 100 MiB alive: hidden" in finding["title"]


def test_parts_of_one_buffer(harness, trace):
    """17 of 64 modules are left of a packed checkpoint."""
    Census(trace).storage(128 * MIB, *[(2 * MIB, f"model.layers.{n}.weight", GLOBAL) for n in range(17)])
    finding = one(harness, trace)
    assert finding["severity"] == "problem" and finding["bytes"] == 94 * MIB
    assert finding["title"].startswith("17 views that make use of 34.0 MiB hold 128 MiB in one storage")


def test_packed_on_purpose_is_info(harness, trace):
    Census(trace).storage(34 * MIB, *[(2 * MIB, f"model.layers.{n}.weight", GLOBAL) for n in range(17)])
    finding = one(harness, trace)
    assert finding["severity"] == "info" and finding["gain_bytes"] == 0
    assert finding["title"].startswith("17 objects hold one storage of 34.0 MiB in 17 parts")


def test_tied_weights_are_no_finding(harness, trace):
    census = Census(trace)
    for paths in (["model.embed.weight", "model.head.weight"], ["a.w", "b.w", "c.w"]):
        census.storage(64 * MIB, (64 * MIB, paths, GLOBAL))
    assert found(harness, trace) == []


def test_kept_losses_hold_their_graphs(harness, trace):
    census = Census(trace, at=900_000_000)
    steps(trace, range(100_000_000, 900_000_000, 100_000_000))
    for n in range(8):
        census.storage(512, (4, f"losses[{n}]", GLOBAL), start=150_000_000 + n * 100_000_000,
                       site="train.py:12 step", graph=20 * MIB)
    finding = one(harness, trace)
    assert finding["severity"] == "problem" and finding["bytes"] == 160 * MIB
    assert finding["title"] == ("8 kept tensors of 4.00 KiB hold 160 MiB in their autograd graphs: losses[*], "
                                "float32 [1]")
    assert ".detach()" in finding["advice"] and ".item()" in finding["advice"]
    assert finding["evidence"]["pattern"] == "kept from step to step"


def test_sum_of_losses_reaches_back(harness, trace):
    """One tensor, made anew in each step, whose graph holds all the steps before."""
    census = Census(trace, at=900_000_000)
    steps(trace, range(100_000_000, 900_000_000, 100_000_000))
    census.storage(512, (4, "total", GLOBAL), start=880_000_000, site="train.py:13 step", graph=160 * MIB)
    for n in range(8):
        census.storage(20 * MIB, (20 * MIB, "total.grad_fn...MmBackward0._saved_self", GRAPH),
                       start=150_000_000 + n * 100_000_000)
    finding = one(harness, trace)
    assert finding["severity"] == "problem" and finding["site"] == "train.py:13 step"
    assert finding["title"].startswith("A kept tensor of 512 bytes holds its whole graph, 160 MiB: total")
    assert finding["evidence"]["pattern"] == "reaches back to earlier steps"


@pytest.mark.parametrize("count, severity", [(1, "info"), (8, "problem")])
def test_graphs_without_steps(harness, trace, count, severity):
    """One may wait for its backward pass; eight numbers in a list do not."""
    census = Census(trace)
    for n in range(count):
        census.storage(512, (4, f"out[{n}]", GLOBAL), start=50_000_000 * n, graph=160 * MIB // count)
    assert one(harness, trace)["severity"] == severity


def test_layer_outputs_without_steps_are_info(harness, trace):
    census = Census(trace)
    for n in range(8):
        census.storage(MIB, (MIB, f"features[{n}]", LOCAL), start=50_000_000 * n, graph=20 * MIB)
    assert one(harness, trace)["severity"] == "info"


@pytest.mark.parametrize("requested, severity", [(0, "warning"), (50 * MIB, "problem"), (200 * MIB, "warning")])
def test_cycles(harness, trace, requested, severity):
    if requested:
        trace.db.execute("INSERT INTO oom(id, ts_ns, device, requested, recovered) VALUES(99, 1000, 0, ?, 0)",
                         (requested,))
    census = Census(trace, reason=1 if requested else 2, oom=99 if requested else None)
    for _ in range(3):
        census.storage(20 * MIB, (20 * MIB, None, LOST), site="model.py:3 make")
    finding = one(harness, trace)
    assert finding["severity"] == severity and finding["bytes"] == 60 * MIB and finding["count"] == 3
    assert finding["title"] == ("Only reference cycles hold 60.0 MiB in 3 storages, until the garbage collector "
                                "runs")
    assert (requested == 50 * MIB) == ("less than what the garbage" in finding["evidence"]["why"])


def test_cut_census_is_estimated(harness, trace):
    Census(trace, state=3, detail="2 s were over").storage(500 * MIB, (MIB, "x", GLOBAL))
    finding = one(harness, trace)
    assert finding["severity"] == "warning" and finding["evidence"]["confidence"] == "estimated"


def test_best_census_is_taken(harness, trace):
    """That at which the most was held, not the last: at exit little is."""
    Census(trace, number=1).storage(100 * MIB, (MIB, "x", GLOBAL))
    Census(trace, number=2, reason=3).storage(512, (512, "y", GLOBAL))
    assert one(harness, trace)["evidence"]["census"] == 1


def test_little_is_not_told(harness, trace):
    census = Census(trace)
    for n in range(6):
        census.storage(100_000, (4, f"losses[{n}]", GLOBAL), graph=100_000)
        census.storage(100_000, (100_000, None, LOST))
    assert found(harness, trace) == []


@pytest.mark.parametrize("state, detail, words", [
    (None, None, "no census in this trace"),
    (4, "no Python", "could not run: no Python"),
    (1, None, "never ended"),
    (2, None, "found no device memory"),
])
def test_skipped_says_why(harness, trace, state, detail, words):
    if state:
        Census(trace, state=state, detail=detail)
    assert words in skipped(harness, trace)
