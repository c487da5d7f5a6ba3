"""Host memory that is no one piece: pinning it does not help, and nothing tells anybody to."""

import pytest

from harness import site_matches

STEPS = 12
KIND = "strided-host-source"


@pytest.mark.parametrize("mode, marker", [("every_second", "every second"), ("left_half", "left half"),
                                          ("into", "into"), ("broadcast", "broadcast"), ("converted", "converted")])
def test_pytorch_gathers_first(case, mode, marker):
    case.play("strided_host", mode, STEPS)
    found = case.one(KIND)
    assert found["count"] == STEPS and found["bytes"] == STEPS * case.printed()["copy_bytes"], case.summary()
    case.at(found, "strided_host.py", marker, mode)
    assert found["severity"] != "info" and found["evidence"]["confidence"] == "linked"
    assert found["evidence"]["pageable"] and not found["evidence"]["pinned"]
    case.none("pageable-copy")  # would say to pin what is pinned


@pytest.mark.parametrize("mode", ["transposed", "other_type", "contiguous"])
def test_page_locked_memory_goes_as_it_is(case, mode):
    case.play("strided_host", mode, STEPS)
    case.none(KIND, "pageable-copy")


def test_a_strided_destination_is_pinnings_affair(case):
    case.play("strided_host", "device_strided", STEPS)
    case.none(KIND)
    assert case.one("pageable-copy")["count"] == STEPS


def rows(case, mode, marker, function="copy_in_rows"):
    """The finding of this line, of those of a program that copies in rows."""
    case.play_app("host_rows", mode, STEPS)
    found = [f for f in case.found(KIND) if site_matches(f["site"], "host_rows.c", marker, function)]
    assert len(found) == 1, case.summary()
    evidence = found[0]["evidence"]
    assert found[0]["count"] == STEPS and found[0]["bytes"] == STEPS * case.printed()["copy_bytes"]
    assert evidence["row_bytes"] == 64 and evidence["pitch"] == 4096 and evidence["rows"] == STEPS * 2048
    return found[0]


def test_a_few_columns_there_and_back(case):
    there = rows(case, "column", "rows")
    assert there["evidence"]["direction"] == "H2D" and "together" in there["advice"]
    back = [f for f in case.found(KIND) if f["evidence"]["direction"] == "D2H"]
    assert [f["count"] for f in back] == [STEPS] and len(case.found(KIND)) == 2
    case.none("pageable-copy")


def test_page_locked_rows(case):
    found = rows(case, "pinned", "pinned rows")
    assert found["evidence"]["pinned"] and not found["evidence"]["pageable"]
    assert "page-locked memory does not change that" in found["evidence"]["why"]


def test_a_matrix_of_cublas(case):
    rows(case, "matrix", "matrix", "set_matrix")


@pytest.mark.parametrize("mode", ["wide", "whole"])
def test_long_rows_and_whole_ones(case, mode):
    case.play_app("host_rows", mode, STEPS)
    case.none(KIND)
