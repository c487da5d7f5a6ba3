"""The operands of cuBLAS's, cuBLASLt's and NCCL's calls: as the simulated device logged them, and as the trace has
them. Nothing here asks the product what to expect."""

import re
from collections import defaultdict

from cudnn_truth import paired_calls, recorded_operands
from table import ROOT
from truth import parse_log


def dtypes(column):
    rows = re.findall(r'^DTYPE\(\w+, "(\w+)", \d+, ([-\d]+), ([-\d]+), ([-\d]+)\)',
                      (ROOT / "include/layoutspy/dtype.def").read_text(), re.M)
    return {int(numbers[column]): name for name, *numbers in rows if int(numbers[column]) >= 0}


CUDA, NCCL = dtypes(0), dtypes(2)


def _matrix(rows, columns, step, order=0):
    return [rows, columns], [1, step] if order == 0 else [step, 1] if order == 1 else None


def _sizes(call):
    """letter -> (rows, columns) of a matrix, (size,) of a vector: what each function's documentation says."""
    n = {key: call.number(key) for key in ("m", "n", "k")}
    op_a, op_b = (call.keys.get(key, "N") == "N" for key in ("op_a", "op_b"))
    m, n, k = n["m"], n["n"], n["k"]
    side = n if call.keys.get("side") == "1" else m

    def turned(rows, columns, plain):
        return (rows, columns) if plain else (columns, rows)

    name = call.name
    if name.startswith("cublasLt"):
        return {x: (call.number(x + "_rows"), call.number(x + "_cols")) for x in "abcd" if x + "_rows" in call.keys}
    if "gemv" in name:
        return {"a": (m, n), "x": (n if op_a else m,), "y": (m if op_a else n,)}
    if "ger" in name:
        return {"a": (m, n), "x": (m,), "y": (n,)}
    if "dgmm" in name:
        return {"a": (m, n), "x": (side,), "c": (m, n)}
    if "geam" in name:
        return {"a": turned(m, n, op_a), "b": turned(m, n, op_b), "c": (m, n)}
    if "trsm" in name:
        return {"a": (side, side), "b": (m, n)}
    if "symm" in name or "hemm" in name:
        return {"a": (side, side), "b": (m, n), "c": (m, n)}
    if "syr" in name or "her" in name:
        return {"a": turned(n, k, op_a), "c": (n, n)}
    return {"a": turned(m, k, op_a), "b": turned(k, n, op_b), "c": (m, n), "d": (m, n)}


def blas_operands(call):
    """A set of (role, address, dtype, dims, strides)."""
    operands = set()
    batch = call.number("batch", 1)
    for letter, sizes in _sizes(call).items():
        if letter + "_type" not in call.keys:
            continue
        step = call.number(("ld" if len(sizes) == 2 else "inc") + letter)
        dims, strides = (_matrix(*sizes, step, call.number(letter + "_order", 0)) if len(sizes) == 2
                         else ([sizes[0]], [step]))
        if "stride_" + letter in call.keys and batch > 1:
            dims, strides = dims + [batch], strides and strides + [call.number("stride_" + letter)]
        operands.add((letter, call.number(letter), CUDA.get(call.number(letter + "_type"), "unknown"), str(dims),
                      strides and str(strides)))
    return operands


def group_operands(call):
    """Of a grouped product, whose first sixteen groups have room."""
    lists = {key: [int(n) for n in call.keys["group_" + key].split(",")]
             for key in ("m", "n", "k", "a", "b", "c", "lda", "ldb", "ldc", "batch")}
    addresses = [lists[letter][i] for letter in "abc" for i in range(len(lists["m"]))]
    return set(addresses)


def nccl_operands(call, ranks):
    count, dtype = call.number("count"), NCCL.get(call.number("type"), "unknown")
    many = {"ncclAllGather": "recv", "ncclReduceScatter": "send"}.get(call.name)
    operands = set()
    for role in ("send", "recv"):
        if call.number(role):
            size = count * (ranks if role == many else 1)
            operands.add(("buffer" if call.name == "ncclBcast" else role, call.number(role), dtype, f"[{size}]", "[1]"))
    return operands


def communicators(log):
    """Ranks of each communicator, by its handle; of an address used twice, of the last one."""
    process, = [p for p in parse_log(log) if p.calls]
    return {call.number("comm"): call.number("ranks") for call in process.calls if "ranks" in call.keys}


def assert_blas_operands(trace, log, libraries=("cublas", "cublasLt", "nccl")):
    """Every operand in the log is in the trace, and no other one. Returns the number of calls that had some."""
    ranks, counts = communicators(log), defaultdict(int)
    for library in libraries:
        for row, call in paired_calls(trace, log, library):
            got = recorded_operands(trace, row["id"])
            got = {operand for operand in got if operand[0] not in ("workspace", "bias", "aux")}
            if "group_a" in call.keys:
                addresses = {address for _, address, *_ in got}
                assert call.status != 0 or addresses == group_operands(call), (call, got)
            elif library == "nccl":
                known = call.status == 0 or call.name not in ("ncclAllGather", "ncclReduceScatter")
                want = nccl_operands(call, ranks.get(call.number("comm"), 1))
                assert not known or {o for o in got if o[1]} == want, (call, want, got)
            else:
                # A failed call's descriptors may be wrong in any way, and a tiled order has no strides.
                want = blas_operands(call)
                assert {o[:4] for o in got if o[3]} == {o[:4] for o in want} or \
                    (library == "cublasLt" and call.status != 0), (call, want, got)
                assert {o[4] for o in want if o[4]} <= {o[4] for o in got} or call.status != 0, (call, want, got)
            counts[library] += bool(got)
    return counts


def assert_products(trace, log):
    """Each row of product_call says what the log says."""
    checked = 0
    for library in ("cublas", "cublasLt"):
        for row, call in paired_calls(trace, log, library):
            products = trace.rows("SELECT * FROM product_call WHERE call_id = ?", row["id"])
            if "lda" not in call.keys or "gem" not in call.name.lower() + ("gem" if library == "cublasLt" else "") or \
                    "gemv" in call.name or "op_b" not in call.keys:
                continue
            if library == "cublasLt" and call.status != 0:
                continue
            product, = products
            for key in ("m", "n", "k", "op_a", "op_b", "lda", "ldb", "ldc", "batch",
                        "stride_a", "stride_b", "stride_c"):
                if key in call.keys:
                    want = call.keys[key] if key.startswith("op") else call.number(key)
                    assert product[key] == want or want == "?", (key, call, dict(product))
            assert product["dtype"] == CUDA.get(call.number("a_type"), "unknown")
            checked += 1
    return checked
