"""What cuBLAS, cuBLASLt, NCCL and cuFFT were given: every operand that the simulated device logged is in the trace,
equal, of every function and of refused calls too."""

import json

import pytest

from blas_truth import assert_blas_operands, assert_products
from harness import app


@pytest.mark.parametrize("program, calls", [("everycall", 500), ("products", 40)])
def test_every_operand(harness, program, calls):
    outcome = harness.same_with_and_without([app(program)], devices=2)
    assert outcome.status == 0 and outcome.err == "", repr(outcome)
    harness.assert_true()
    trace = harness.trace()
    counts = assert_blas_operands(trace, harness.log)
    assert sum(counts.values()) > calls and set(counts) == {"cublas", "cublasLt", "nccl"}
    assert assert_products(trace, harness.log) > (60 if program == "everycall" else 8)


def operands(trace, api):
    """role -> dims, strides, dtype, layout, direction, of each successful call."""
    calls = trace.rows("SELECT id FROM library_call WHERE api = ? AND status = 0 ORDER BY id", api)
    return [{row["role"]: (json.loads(row["dims"] or "null"), json.loads(row["strides"] or "null"), row["dtype"],
                           row["layout"], row["direction"])
             for row in trace.rows("SELECT * FROM tensor_operand WHERE call_id = ?", call["id"])} for call in calls]


def test_what_is_read_and_written(harness):
    harness.record([app("products")])
    trace = harness.trace()
    plain, added, on_device = operands(trace, "cublasSgemm_v2")[:3]
    assert (plain["c"][4], added["c"][4], on_device["c"][4]) == ("out", "inout", "inout")
    assert plain["a"] == ([5, 3], [1, 8], "float32", "column-major", "in")  # op(A) is A'
    only_moved, summed = operands(trace, "cublasSgeam")
    assert only_moved["b"][4] not in ("in", "inout") and summed["b"][4] == "in"
    solved, = operands(trace, "cublasDtrsm_v2")
    assert solved["b"][4] == "inout"
    vector, = operands(trace, "cublasSgemv_v2")
    assert (vector["x"][0], vector["y"][0], vector["y"][1]) == ([3], [5], [2])


def test_lt(harness):
    harness.record([app("products")])
    trace = harness.trace()
    plain, biased, rows = operands(trace, "cublasLtMatmul")
    assert plain["d"] == ([3, 4], [1, 3], "float32", "column-major", "out")
    assert plain["c"][4] not in ("in", "inout") and "bias" not in plain
    assert biased["bias"] == ([3], [1], "float16", "row-major", "in")
    assert biased["aux"][:2] == ([3, 4], [1, 8])
    assert biased["c"][4] == "in"
    assert biased["workspace"][0] == [4096]
    assert rows["a"][:4] == ([3, 5, 2], [5, 1, 15], "float32", "row-major")
    turned, = operands(trace, "cublasLtMatrixTransform")
    assert (turned["a"][0], turned["c"][0], turned["c"][3]) == ([3, 4], [3, 4], "row-major")


def test_transforms(harness):
    harness.record([app("products")])
    trace = harness.trace()
    apart, in_place = operands(trace, "cufftExecR2C")
    assert apart["input"][:3] == ([3, 4, 6], [24, 6, 1], "float32")
    assert apart["output"][:3] == ([3, 4, 4], [16, 4, 1], "complex64")
    assert in_place["input"][:2] == ([3, 4, 6], [32, 8, 1])
    back, = operands(trace, "cufftExecZ2D")
    assert (back["input"][0], back["output"][0], back["output"][2]) == ([9], [16], "float64")
    strided, = operands(trace, "cufftExecC2C")
    assert strided["input"][:2] == ([2, 4, 4], [100, 12, 2])
    assert strided["output"][:2] == ([2, 4, 4], [16, 4, 1])


def test_strided_host_side(harness):
    """cuBLAS's copies are in all_copy once, and how they lie on the host is told."""
    harness.record([app("products")])
    trace = harness.trace()
    rows = trace.rows("SELECT * FROM all_copy WHERE api LIKE 'cublas%' ORDER BY start_ns")
    assert [(r["api"], r["direction"], r["bytes"], r["src_kind"], r["dst_kind"]) for r in rows] == [
        ("cublasSetMatrix", "H2D", 60, "pageable", "device"), ("cublasGetVector", "D2H", 32, "device", "pageable")]
    assert trace.one("SELECT COUNT(*) FROM all_copy") == 2
    fields = json.loads(trace.one("SELECT fields FROM api WHERE name = 'cublasSetMatrix'"))
    at = {field["name"]: i for i, field in enumerate(fields)}
    call = trace.rows("SELECT call.* FROM call JOIN api ON api.id = api WHERE name = 'cublasSetMatrix'")[0]
    assert [call[f"f{at[key]}"] for key in ("width", "height", "spitch", "dpitch")] == [12, 5, 28, 12]
