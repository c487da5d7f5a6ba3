"""Memory that nothing used for long: told only where all that could have used it is known."""

import pytest

from case import near
from test_quiet_loops import LOOPS

HOW = {"memory": "4G", "more_env": {"LAYOUTSPY_CUPTI": "full"}}
IDLE = ("unused-allocation", "early-allocation", "late-free")


def idle(case, how, **more):
    case.play("idle_memory", how, **dict(HOW, **more))
    return case.printed()["idle"]


def whole(case, kind, bytes_, marker, function):
    found = case.one(kind, "warning")
    evidence = found["evidence"]
    assert found["bytes"] == bytes_ and near(found["gain_bytes"], bytes_, 0.01)
    assert evidence["steps"] >= 2 and evidence["memory"] == "blocks" and evidence["confidence"] == "linked"
    case.at(found, "idle_memory.py", marker, function)
    case.none(*(k for k in IDLE if k != kind))
    # A loaded machine makes the one copy at the start as slow as it likes.
    assert {f["kind"] for f in case.above_info()} - {"pageable-copy"} == {kind}, case.summary()
    return found


def test_nothing_used_it(case):
    found = whole(case, "unused-allocation", idle(case, "unused"), "spare", "unused")
    assert found["evidence"]["rows"][0]["uses"] == 0 and found["count"] == 1


def test_lists_of_tensors_are_seen_through(case):
    whole(case, "unused-allocation", idle(case, "lists"), "beside lists", "in_lists")


def test_made_early(case):
    found = whole(case, "early-allocation", idle(case, "early"), "results", "early")
    first = found["evidence"]["first_use"]
    assert found["evidence"]["known_until_use"] and "elementwise_kernel" in first["kernel"], first
    assert "just before" in found["advice"]


def test_freed_late(case):
    found = whole(case, "late-free", idle(case, "late"), "table", "late")
    evidence = found["evidence"]
    assert evidence["known_from_use"] and "elementwise_kernel" in evidence["last_use"]["kernel"]
    assert evidence["last_use"]["after_site"].split(" ")[1] == "late"
    assert evidence["free_site"].split(":")[0].endswith("idle_memory.py") and "`del`" in found["advice"]


@pytest.mark.parametrize("how", ["busy", "brief", "elsewhere"])
def test_it_is_in_use(case, how):
    idle(case, how)
    case.none(*IDLE)
    assert not set(IDLE) & {s["kind"] for s in case.told["skipped"]}


@pytest.mark.parametrize("how", ["graph", "many"])
def test_nobody_knows(case, how):
    idle(case, how)
    case.none(*IDLE)


@pytest.mark.parametrize("off", [{"LAYOUTSPY_CUPTI": "off"}, {"LAYOUTSPY_LAYOUTS": "off"}], ids=str)
def test_nobody_looked(case, off):
    idle(case, "unused", more_env=dict(HOW["more_env"], **off))
    case.none(*IDLE)
    assert set(IDLE) <= {s["kind"] for s in case.told["skipped"]}




@pytest.mark.parametrize("loop", LOOPS)
def test_ordinary_loops(case, loop):
    case.play("quiet", loop, **HOW)
    assert not set(IDLE) & {f["kind"] for f in case.above_info()}, case.summary()
