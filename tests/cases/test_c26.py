"""A broadcast matmul that is materialised (pytorch issue 149302): 64 GiB of copies of 8 MiB."""

import pytest

GIB, MIB = 1 << 30, 1 << 20
LAYOUT = ("broadcast-materialised", "copy-before-call", "persistent-strided-operand", "cancelling-pair",
          "conversion-kernels", "layout-mismatch")


def test_broadcast_matmul(case):
    case.play("c26_broadcast", "matmul", memory="80G")
    found = case.one("broadcast-materialised", "problem")
    evidence = found["evidence"]
    assert evidence["factor"] == 8192
    assert evidence["written_bytes"] == found["bytes"] == 64 * GIB
    assert evidence["source_bytes"] == 8 * MIB
    assert found["gain_bytes"] == 64 * GIB - 8 * MIB
    assert found["count"] == 1
    assert "StridedBatched" in evidence["reader"]
    assert 0 in evidence["copy"]["source"]["strides"]
    case.at(found, "c26_broadcast.py", "c26", "matmul")
    assert "einsum" in found["advice"] and "F.linear" in found["advice"]
    case.none(*(kind for kind in LAYOUT if kind != "broadcast-materialised"))


@pytest.mark.parametrize("mode", ["einsum", "linear"])
def test_what_copies_nothing_large(case, mode):
    """einsum may permute the 512 MiB operand; nothing is expanded."""
    case.play("c26_broadcast", mode, memory="80G")
    case.none("broadcast-materialised", "persistent-strided-operand", "cancelling-pair")
    if mode == "linear":
        case.none(*LAYOUT)
