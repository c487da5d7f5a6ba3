"""C09: a retry inside of the except block fails again, for the exception holds the failed step's tensors."""

import pytest

from case import MIB

PLACES = {"forward": "1792M", "backward": "2G"}


@pytest.mark.parametrize("place", PLACES)
def test_the_failed_step_is_still_held(case, place):
    case.play("c09_retry", f"{place}-inside", memory=PLACES[place])
    script = case.printed()
    assert script["worked"] == 0
    found = case.one("oom-cascade", "problem")
    case.at(found, "c09_retry.py", "c09 call", "attempt")
    evidence = found["evidence"]
    held = script["held_64"] - script["before"]
    assert found["bytes"] == evidence["left_bytes"] == held
    assert evidence["below"].endswith(" step")
    assert [e["consequence"] for e in evidence["later"]] == [True, True]
    assert [e["requested"] for e in evidence["later"]] == [128 * MIB, 64 * MIB]
    assert all(e["outlived"] == held for e in evidence["later"])
    assert sum(h["bytes"] for h in evidence["holders"]) == held
    assert evidence["backward"] == (place == "backward")
    assert "Leave the except block" in found["advice"]


@pytest.mark.parametrize("place", PLACES)
def test_first_is_the_cause_and_the_others_consequences(case, place):
    case.play("c09_retry", f"{place}-inside", memory=PLACES[place])
    first, *others = sorted(case.found("oom"), key=lambda f: f["evidence"]["rows"][0]["ts_ns"])
    assert first["severity"] == "problem" and first["evidence"]["verdict"] == "live memory"
    assert first["evidence"]["rows"][0]["oom"] == case.one("oom-cascade")["evidence"]["cause"]
    assert others and all(f["severity"] == "info" for f in others)
    assert sum(f["count"] for f in others) == 2
    case.only("oom", "oom-cascade")
    case.none("fragmentation", "oom-fitting-block", "pending-free")


@pytest.mark.parametrize("place", PLACES)
def test_retry_after_the_block_works(case, place):
    case.play("c09_retry", f"{place}-after", memory=PLACES[place])
    assert case.printed()["worked"] == 1
    case.none("oom-cascade")
    case.only("oom")
    assert case.one("oom")["count"] == 1
