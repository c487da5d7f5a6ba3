"""Evaluation that keeps every prediction on the device (transformers issue 7232): so much a batch, from
one line, and when the device will be full."""

import pytest

MIB = 1 << 20


def kinds(case):
    return {f["kind"] for f in case.above_info()}


def test_concatenated_until_memory_runs_out(case):
    case.play("c10_evaluate", 200, "cat", memory="160M", status=1)
    counted, found = case.printed(), case.one("linear-growth", "problem")
    evidence = found["evidence"]
    assert evidence["bytes_per_step"] == counted["batch_bytes"] == MIB
    assert evidence["peak_factor"] == 2 and evidence["live"] == 1
    assert abs(found["bytes"] - counted["batches"] * MIB) <= MIB
    # The batch that failed is the one after the last that was done.
    assert evidence["exhausted_at_step"] == counted["batches"] + 1
    # As if nothing but the two sums took memory: later than in truth, by no more than twice.
    assert counted["batches"] < evidence["exhausts_at_step"] < 2 * counted["batches"]
    case.at(found, "c10_evaluate.py", "c10 cat", "concatenate")
    assert "host" in found["advice"]
    case.one("oom", "problem")
    case.none("leak", "ratchet", "delayed-release", "peak-overlap", "pool-miss")
    assert kinds(case) <= {"linear-growth", "oom", "cache-flush-stall", "pageable-copy"}, case.summary()


def test_concatenated_to_the_end(case):
    case.play("c10_evaluate", 40, "cat", memory="4G")
    found = case.one("linear-growth")
    assert found["evidence"]["bytes_per_step"] == MIB and found["evidence"]["peak_factor"] == 2
    assert kinds(case) <= {"linear-growth", "pageable-copy"}, case.summary()


def test_a_list_that_is_kept(case):
    case.play("c10_evaluate", 40, "list", memory="4G")
    counted, found = case.printed(), case.one("linear-growth", "warning")
    assert found["evidence"]["bytes_per_step"] == counted["batch_bytes"]
    assert found["evidence"]["peak_factor"] == 1
    assert abs(found["count"] - counted["batches"]) <= 1
    case.at(found, "c10_evaluate.py", "c10 list", "collect")
    assert kinds(case) <= {"linear-growth", "pageable-copy"}, case.summary()


@pytest.mark.parametrize("mode", ["host", "epochs"])
def test_what_does_not_grow(case, mode):
    case.play("c10_evaluate", 20, mode, memory="4G")
    case.none("linear-growth", "leak", "ratchet", "delayed-release", "peak-overlap", "pool-miss")
    assert kinds(case) <= {"pageable-copy"}, case.summary()
