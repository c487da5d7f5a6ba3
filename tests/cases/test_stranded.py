"""The rest of a segment beside what stays in it: used by the steps, or never."""

from case import MIB


def test_never_used_again(case):
    case.play("stranded", "stranded", memory="16G")
    found = case.one("stranded-remainder", "warning")
    case.at(found, "stranded.py", "stranded tables", "tables")
    # The segment holds what stays, and the second piece of each step.
    assert found["bytes"] == (4000 - 300 - 1950) * MIB
    assert found["count"] == 1
    segment = found["evidence"]["segments"][0]
    assert (segment["size"], segment["live"], segment["blocks"]) == (4000 * MIB, 300 * MIB, 3)
    case.only("stranded-remainder")


def test_used_by_every_step(case):
    case.play("stranded", "used", memory="16G")
    case.only()
    case.none("stranded-remainder", "reserved-gap")
