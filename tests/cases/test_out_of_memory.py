"""Other ends of memory, each with its own reason, and the usual advice only where it is right."""

import json
import sqlite3

import pytest

from case import MIB

SCRIPT = "out_of_memory.py"


def verdict(case, mode, **how):
    case.play("out_of_memory", mode, memory="2G", **how)
    return case.one("oom", "problem")


def causes(case):
    """How often each cause was told."""
    return {f["evidence"]["verdict"]: f["count"] for f in case.found("oom")}


def test_larger_than_the_device(case):
    oom = verdict(case, "large")
    assert oom["evidence"]["verdict"] == "live memory" and "more than the device has" in oom["title"]
    assert oom["bytes"] == 8192 * MIB and oom["evidence"]["capacity"] == 2048 * MIB
    case.only("oom")
    case.none("fragmentation", "reserved-gap", "oom-cascade")


@pytest.mark.parametrize("expandable", [False, True])
def test_live_memory(case, expandable):
    conf = {"PYTORCH_ALLOC_CONF": "expandable_segments:True"} if expandable else {}
    oom = verdict(case, "full", more_env=conf)
    assert oom["evidence"]["verdict"] == "live memory"
    assert oom["evidence"]["allocated"] == 1800 * MIB
    assert oom["evidence"]["backward"] is False
    assert "backward" not in case.layoutspy("oom", case.out).out
    assert oom["evidence"]["holders"][0]["bytes"] == 1800 * MIB
    assert not [w for w in ("expandable", "max_split", "empty_cache") if w in oom["advice"]]
    case.none("fragmentation", "reserved-gap", "oom-cascade")


def test_in_a_backward_pass(case):
    """The site is the line of the forward operation: all words say that it was in its backward."""
    oom = verdict(case, "backward")
    case.at(oom, SCRIPT, "ends sine", "backward")
    assert oom["evidence"]["backward"] is True
    assert oom["title"].startswith("Out of memory in the backward of this line: 300 MiB asked for")
    (event,) = json.loads(case.layoutspy("oom", "--json", case.out).out)["events"]
    assert event["backward"] is True
    assert f"in the backward of {oom['site']}" in " ".join(case.layoutspy("oom", case.out).out.split())
    assert "in the backward of this line" in " ".join(case.layoutspy("report", case.out).out.split())


def test_an_error_that_was_caught(case):
    """The program went on with less, for whole steps: a warning, which says so."""
    case.play("out_of_memory", "caught", memory="1G")
    oom = case.one("oom", "warning")
    case.at(oom, SCRIPT, "ends batch", "caught")
    steps = oom["evidence"]["went_on"]["steps"]
    assert 11 <= steps <= 12 and oom["evidence"]["went_on"]["allocations"] >= steps
    assert oom["title"].endswith(f"; the program caught it and went on for {steps} steps")


def test_a_limit_of_the_program(case):
    oom = verdict(case, "limit")
    assert oom["evidence"]["verdict"] == "limit set in the program"
    assert oom["evidence"]["attempts"] == 0 and oom["evidence"]["device_free"] > 600 * MIB
    assert "memory_fraction" in oom["advice"]
    case.only("oom")


@pytest.mark.parametrize("mode, words", [("stream", "another stream"), ("graph", "CUDA graph")])
def test_a_hole_of_another_pool(case, mode, words):
    oom = verdict(case, mode)
    assert oom["evidence"]["verdict"] == "a fitting hole in another pool"
    assert oom["evidence"]["largest_hole"] >= 900 * MIB
    assert words in oom["evidence"]["why"]
    case.only("oom")
    case.none("oom-fitting-block")


def test_asked_beside_the_allocator(case):
    """Emptying the cache is the right advice here: the allocator was not asked to."""
    oom = verdict(case, "beside")
    assert oom["evidence"]["verdict"] == "asked beside the allocator"
    assert oom["evidence"]["cached"] == 1500 * MIB and oom["bytes"] == 1000 * MIB
    assert "empty_cache()" in oom["advice"]
    assert oom["site"].endswith(" beside")
    case.only("oom")


def edited(case, change):
    """The report after figures of the trace were changed: what one simulated process cannot bring about."""
    with sqlite3.connect(case.out) as db:
        db.execute(change)
    case.told = case.report()
    return case.one("oom", "problem")


def test_others_hold_the_device(case):
    verdict(case, "full")
    oom = edited(case, f"UPDATE oom SET device_total = {4096 * MIB}, device_free = {100 * MIB}")
    assert oom["evidence"]["verdict"] == "held by other processes or contexts"
    assert oom["evidence"]["held_by_others"] == (4096 - 100 - 1800) * MIB
    assert "nvidia-smi" in oom["advice"] and "batch" not in oom["advice"]


def test_a_library_asked(case):
    verdict(case, "beside")
    oom = edited(case, "UPDATE oom SET owner = 'NCCL'")
    assert "asked for by NCCL" in oom["title"] and "1.46 GiB" in oom["title"]


def test_an_exception_that_is_kept(case):
    oom = verdict_of_first(case, "saved")
    found = case.one("oom-cascade", "problem")
    case.at(found, SCRIPT, "ends layer", "attempt")
    assert found["bytes"] == 5 * 400 * MIB and len(found["evidence"]["later"]) == 2
    assert oom["evidence"]["rows"][0]["oom"] == found["evidence"]["cause"]


def verdict_of_first(case, mode):
    case.play("out_of_memory", mode, memory="2G")
    return next(f for f in case.found("oom") if f["severity"] == "problem")


def test_a_search_that_gives_back(case):
    """The second attempt, 3 x 600 MiB, would have fitted: it failed for lying in segments of 800."""
    case.play("out_of_memory", "halves", memory="2G")
    assert case.outcome.out == "result=6\n"
    assert causes(case) == {"live memory": 2, "fragmented": 1}
    (pieces,) = case.found("fragmentation")
    assert pieces["evidence"]["missing"] == 600 * MIB - pieces["evidence"]["device_free"]
    case.only("oom", "fragmentation")
    case.none("oom-cascade")


def test_two_causes_at_one_line(case):
    """Each by its own figures, also those whose segments are not looked at any more."""
    case.play("out_of_memory", "alternating", memory="2G")
    assert case.outcome.out == "result=16\n"
    assert causes(case) == {"live memory": 8, "fragmented": 8}
    (pieces,) = case.found("fragmentation")
    assert pieces["evidence"]["requested"] == 250 * MIB and pieces["count"] == 8
    case.only("oom", "fragmentation")


def test_a_step_that_is_left_out(case):
    """The optimizer's state, made below the same call long before, is nobody's remains."""
    case.play("out_of_memory", "training", memory="2G")
    oom = case.one("oom", "warning")
    assert 7 <= oom["evidence"]["went_on"]["steps"] <= 8
    assert oom["bytes"] == 16 * 400 * 4 * MIB
    case.only("oom")
    case.none("oom-cascade", "fragmentation")


def test_memory_kept_on_purpose(case):
    """A pool that the program fills until there is no more outlives its oom: not by an exception."""
    case.play("out_of_memory", "fill", memory="2G")
    oom = case.one("oom", "warning")  # it works on with what is left
    assert oom["evidence"]["verdict"] == "live memory"
    assert all(f["severity"] == "info" for f in case.found("oom-cascade"))


def test_a_slow_stream(case):
    """Every request in the end had room, but only once the other stream was done."""
    case.play("out_of_memory", "prefetch", memory="2G", more_env={"STANDIN_DELAY_US": 20000})
    found = case.one("pending-free", "warning")
    case.at(found, SCRIPT, "ends dropped", "prefetch")
    assert found["bytes"] == 2000 * MIB and found["count"] == 5
    assert found["time_ns"] > 0 and found["evidence"]["requests_that_waited"] > 0
    assert len(found["evidence"]["streams"]) == 1
    case.none("oom", "fragmentation", "oom-fitting-block")


@pytest.mark.parametrize("workload", ["conv", "transformer", "resnet", "optimizers", "streams", "lstm"])
def test_healthy_loops(case, workload):
    case.play(workload, memory="4G")
    case.none("oom", "oom-cascade", "oom-fitting-block")
    kinds = ("fragmentation", "reserved-gap", "stranded-remainder", "pending-free")
    assert not [f for f in case.above_info() if f["kind"] in kinds], case.summary()
