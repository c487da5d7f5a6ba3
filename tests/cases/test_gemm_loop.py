"""Equal small products in a loop, that one batched call would do; and loops that it would not."""

import pytest

STEPS = 60
HOW = {"memory": "2G", "more_env": {"LAYOUTSPY_CUPTI": "full"}}


@pytest.mark.parametrize("mode, function", [("loop", "<listcomp>"), ("slices", "step"), ("shared", "<listcomp>")])
def test_a_loop(case, mode, function):
    case.play("gemm_loop", STEPS, mode, **HOW)
    found, count = case.one("gemm-loop"), case.printed()["count"]
    evidence = found["evidence"]
    assert found["count"] == count * STEPS and evidence["longest"] >= count
    assert (evidence["product"]["m"], evidence["product"]["n"], evidence["product"]["k"]) == (64, 64, 64)
    # cuBLAS sees the transposed problem: its A is the program's b.
    assert evidence["same_a"] == (mode == "shared") and not evidence["same_b"]
    assert ("larger product" if mode == "shared" else "torch.bmm") in found["advice"]
    assert 0 < found["gain_ns"] <= evidence["host_ns"]
    case.at(found, "gemm_loop.py", mode, function)
    case.none("batch-degraded", "misaligned")


@pytest.mark.parametrize("mode", ["chain", "activated", "batched"])
def test_no_loop(case, mode):
    case.play("gemm_loop", STEPS, mode, **HOW)
    case.none("gemm-loop", "batch-degraded")
