"""C02: a resumed run keeps what its loading took, and no step can use it."""

import pytest

from case import MIB, near

CAPACITY = "12G"


def test_the_gap_was_born_before_the_first_step(case):
    case.play("c02_resume", "resumed", memory=CAPACITY)
    script = case.printed()
    found = case.one("reserved-gap", "warning")
    case.at(found, "c02_resume.py", "c02 load", "load_checkpoint")
    evidence = found["evidence"]
    copies = 48 * 64 * MIB
    assert found["bytes"] == found["gain_bytes"] == copies == script["reserved_before"] - script["allocated_before"]
    assert evidence["phase"] == "before the first step" and evidence["copies_bytes"] == copies
    assert found["count"] == 48
    assert "empty_cache() once, after loading" in found["advice"]
    # The figures of the trace's own view say the same.
    trace = case.trace()
    assert trace.one("SELECT MAX(reserved) FROM reserved_gap") == script["reserved"]
    case.only("reserved-gap")


@pytest.mark.parametrize("mode", ["fresh", "emptied"])
def test_without_the_copies_there_is_none(case, mode):
    case.play("c02_resume", mode, memory=CAPACITY)
    case.only()
    case.none("reserved-gap", "stranded-remainder", "fragmentation")


def test_a_cache_that_is_used_is_no_gap(case):
    """The same loading, but the steps ask for pieces of the size that it left."""
    case.play("c02_resume", "reused", memory=CAPACITY)
    case.only()
    case.none("reserved-gap", "stranded-remainder")
    assert near(case.printed()["reserved"], 96 * 64 * MIB)
