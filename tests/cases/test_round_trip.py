"""Tensors that go to the host and straight back; and what is no such thing, of which nothing is told."""

import pytest

from harness import site_matches

STEPS = 10
HOW = {"memory": "4G"}


def play(case, mode, **how):
    case.play("round_trip", mode, STEPS, **dict(HOW, **how))
    return case.printed()["copy_bytes"]


def known(case, size, marker, function):
    """The finding: so many bytes each way, by that line. A thread that is kept from running between
    the two copies leaves it unknown."""
    here = [f for f in case.found("round-trip") if site_matches(f["site"], "round_trip.py", marker, function)]
    found, = [f for f in here if f["evidence"]["same_data_known"]]
    others = sum(f["count"] for f in here if f is not found)
    assert 1 <= found["count"] <= STEPS - others and found["severity"] != "info", case.summary()
    assert found["bytes"] == 2 * size * found["count"] and found["gain_ns"] == found["time_ns"] > 0
    # Elsewhere: the one that a model makes while it is traced.
    assert all(f["count"] == 1 for f in case.found("round-trip") if f not in here), case.summary()
    return found


def test_in_one_line(case):
    found = known(case, play(case, "straight"), "straight", "straight")
    assert "leave out .cpu()" in found["advice"] and not found["evidence"]["two_devices"]
    assert found["evidence"]["back_site"] == found["site"]
    # What is told here is not told again by pageable-copy: at most the pairs that a pause came between.
    assert sum(f["count"] for f in case.found("pageable-copy")) == 2 * (STEPS - found["count"])


def test_in_two_lines(case):
    found = known(case, play(case, "two_lines"), "there", "two_lines")
    line = int(found["site"].split(":")[1].split(" ")[0])
    assert found["evidence"]["back_site"].split(":")[1].split(" ")[0] == str(line + 1)


def test_through_page_locked_memory(case):
    found = known(case, play(case, "Pinned"), "pinned", "__call__")
    assert found["evidence"]["pinned"]


def test_to_another_device(case):
    found = known(case, play(case, "devices", devices=2), "devices", "devices")
    assert found["evidence"]["two_devices"] and "another device" in found["title"]
    assert "x.to('cuda:1')" in found["advice"] and "cudaMemcpyPeerAsync" in found["advice"]


def test_in_a_traced_model(case):
    found = known(case, play(case, "Traced"), "traced", "__call__")
    assert found["evidence"]["scripted"] and "trace it again" in found["advice"]


@pytest.mark.parametrize("mode", ["Loader", "PinnedLoader", "freed", "offload", "checkpoint"])
def test_nobody_knows(case, mode):
    play(case, mode)
    assert not [f for f in case.found("round-trip") if f["severity"] != "info"], case.summary()
    for found in case.found("round-trip"):
        assert not found["evidence"]["same_data_known"] and found["gain_ns"] == 0
        assert "not known" in found["title"]


def test_single_values(case):
    play(case, "item")
    case.none("round-trip")
