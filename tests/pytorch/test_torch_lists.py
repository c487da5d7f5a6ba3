"""Kernels over lists of tensors (foreach operations, fused optimizers): every tensor they write or read is told."""

import json
import sqlite3

from torch_harness import TorchHarness

OPERANDS = """SELECT o.direction, o.address FROM tensor_operand AS o JOIN call ON call.id = o.call_id
    JOIN kernel ON kernel.id = call.f0 WHERE kernel.name LIKE '%multi_tensor_apply%' ORDER BY o.call_id, o.position"""


def test_lists(tmp_path, torch_python):
    torch = TorchHarness(tmp_path, torch_python)
    outcome = torch.go("lists")
    assert outcome.status == 0, outcome
    trace = sqlite3.connect(torch.out)
    told = {}
    for direction, address in trace.execute(OPERANDS):
        told.setdefault(address, set()).add(direction)
    cases = [json.loads(line) for line in outcome.out.splitlines()]
    assert len(cases) == 9
    for case in cases:
        for address in case["written"]:
            assert told.get(address, set()) & {"out", "inout"}, case
        for address in case["read"]:
            assert told.get(address) and "in" in told[address], (case, told.get(address))
    assert trace.execute("SELECT * FROM coverage WHERE layer = 'layouts' AND state <> 'on'").fetchall() == []
