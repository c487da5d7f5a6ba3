"""PyTorch's copies are told by the arguments of their kernels: each tensor's sizes, strides and type.

TensorIterator reorders dimensions and joins them, so the two accounts are compared by what they mean:
which byte is copied to which, of every element.
"""

import itertools
import json
import os
import sqlite3

import pytest

from test_torch_cuda12 import cuda12  # noqa: F401 (a fixture)
from torch_harness import TorchHarness, make_python

OPERANDS = """SELECT o.call_id, o.role, o.dtype, o.dims, o.strides, o.address, s.flags, kernel.name
    FROM tensor_operand AS o JOIN call ON call.id = o.call_id JOIN kernel ON kernel.id = call.f0
    LEFT JOIN shape AS s ON s.id = o.shape ORDER BY o.call_id, o.position"""
SAME_BYTES = {"float8_e4m3fn": "float8_e4m3"}
LONG = pytest.mark.skipif(os.environ.get("LAYOUTSPY_LONG") != "1", reason="long: --long")


@pytest.fixture(scope="module", params=["2.11.0", pytest.param("2.4.1", marks=LONG)])
def copies(request, tmp_path_factory):
    """Python's account, and the recorded copies: destination and sources by the destination's address."""
    standin = request.getfixturevalue("cuda12") if request.param == "2.4.1" else None
    torch = TorchHarness(tmp_path_factory.mktemp("copies"), make_python(request.param), standin=standin)
    outcome = torch.go("copies")
    assert outcome.status == 0, outcome
    trace = sqlite3.connect(torch.out)
    launches = {}
    for call, *operand in trace.execute(OPERANDS):
        launches.setdefault(call, []).append(operand)
    told = {operands[0][4]: operands for operands in launches.values() if operands[0][0] == "dst"}
    return [json.loads(line) for line in outcome.out.splitlines()], told, trace


def offsets(sizes, strides):
    """Of every element, in the order of the dimensions."""
    return [sum(i * stride for i, stride in zip(index, strides))
            for index in itertools.product(*map(range, sizes))]


def addresses(side):
    return [side["address"] + offset * side["bytes"] for offset in offsets(side["sizes"], side["strides"])]


def recorded_addresses(operand, size):
    _, _, dims, strides, address, flags, _ = operand
    unit = 1 if flags & 8 else size
    return [address + offset * unit for offset in offsets(json.loads(dims), json.loads(strides))]


def dtype(side):
    return SAME_BYTES.get(side["dtype"], side["dtype"])


def test_each_element_goes_where_python_says(copies):
    cases, told, _ = copies
    kernels = [case for case in cases if case["kind"] == "kernel"]
    assert len(kernels) > 80
    for case in kernels:
        dst, [src] = case["dst"], case["src"]
        assert dst["address"] in told, case
        operands = told[dst["address"]]
        assert [operand[0] for operand in operands] == ["dst", "src"], case
        assert [operand[1] for operand in operands] == [dtype(dst), dtype(src)], case
        recorded = zip(recorded_addresses(operands[0], dst["bytes"]), recorded_addresses(operands[1], src["bytes"]))
        assert sorted(recorded) == sorted(zip(addresses(dst), addresses(src))), (case, operands)


def test_dimensions_are_told_the_outermost_first(copies):
    cases, told, _ = copies
    for case in cases:
        if case["name"] in ("transpose", "permute", "heads"):
            strides = json.loads(told[case["dst"]["address"]][0][3])
            assert strides == sorted(strides, reverse=True) and strides[-1] == 1, case


def test_broadcasts_have_a_stride_of_nought(copies):
    cases, told, _ = copies
    seen = 0
    for case in cases:
        if case["kind"] == "kernel" and case["name"].startswith("expand"):
            assert 0 in json.loads(told[case["dst"]["address"]][1][3]), case
            seen += 1
    assert seen >= 3


def test_a_copy_of_bytes_is_no_kernel(copies):
    cases, told, trace = copies
    for case in cases:
        if case["kind"] == "bytes":
            assert case["dst"]["address"] not in told
            [count] = trace.execute("SELECT count(*) FROM copy WHERE dst = ? AND src = ?",
                                    (case["dst"]["address"], case["src"][0]["address"])).fetchone()
            assert count == 1, case


def test_concatenations_tell_the_whole_and_its_parts(copies):
    cases, told, _ = copies
    cats = [case for case in cases if case["kind"] == "cat"]
    assert cats
    for case in cats:
        operands = told[case["dst"]["address"]]
        size = case["dst"]["bytes"]
        assert sorted(recorded_addresses(operands[0], size)) == sorted(addresses(case["dst"])), case
        sources = operands[1:]
        assert [operand[0] for operand in sources] == ["src"] * min(7, len(case["src"])), case
        for operand, src in zip(sources, case["src"]):
            assert sorted(recorded_addresses(operand, size)) == sorted(addresses(src)), (case, operand)


def test_other_kernels_tell_addresses(copies):
    cases, _, trace = copies
    launches = {}
    for call, address, name in trace.execute("""SELECT o.call_id, o.address, kernel.name FROM tensor_operand AS o
            JOIN call ON call.id = o.call_id JOIN kernel ON kernel.id = call.f0 WHERE o.role = 'argument'"""):
        assert "copy_kernel" not in name and "CatArray" not in name
        launches.setdefault(call, set()).add(address)
    for case in cases:
        if case["kind"] == "argument":
            sides = {side["address"] for side in [case["dst"], *case["src"]]}
            assert sides in launches.values(), case


def test_nothing_was_unlike_what_is_known(copies):
    *_, trace = copies
    assert trace.execute("SELECT * FROM coverage WHERE layer = 'layouts' AND state <> 'on'").fetchall() == []


def test_cupti_alone_tells_copies_too(tmp_path, torch_python):
    torch = TorchHarness(tmp_path, torch_python)
    outcome = torch.go("copies", more_env={"LAYOUTSPY_HOOKS": "off", "LAYOUTSPY_CUPTI": "full"})
    assert outcome.status == 0, outcome
    trace = sqlite3.connect(torch.out)
    told = {address for address, in trace.execute("SELECT address FROM tensor_operand WHERE role = 'dst'")}
    cases = [json.loads(line) for line in outcome.out.splitlines()]
    wanted = {case["dst"]["address"] for case in cases if case["kind"] in ("kernel", "cat")}
    assert wanted and wanted <= told


def test_layouts_off(tmp_path, torch_python):
    torch = TorchHarness(tmp_path, torch_python)
    outcome = torch.go("copies", more_env={"LAYOUTSPY_LAYOUTS": "off"})
    assert outcome.status == 0, outcome
    trace = sqlite3.connect(torch.out)
    assert trace.execute("SELECT count(*) FROM operand").fetchone() == (0,)
    assert trace.execute("SELECT count(*) FROM shape").fetchone() == (0,)
    assert trace.execute("SELECT state, detail FROM coverage WHERE layer = 'layouts'").fetchall() == \
        [("off", "LAYOUTSPY_LAYOUTS=off")]
