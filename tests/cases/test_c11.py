"""Steps whose tensors wait for Python's garbage collector (PyTorch issue 100264): a staircase of equal
steps, and frees in bursts."""

import pytest


def test_a_cycle_that_waits_for_the_collector(case):
    case.play("c11_cycle", 60, "cycle", memory="2G")
    counted, found = case.printed(), case.one("delayed-release")
    evidence = found["evidence"]
    assert found["severity"] in ("warning", "problem")
    assert evidence["collector"] is True
    assert evidence["bytes_per_step"] == counted["step_bytes"]
    assert evidence["generations"] == counted["waiting"]
    assert found["bytes"] == counted["waiting"] * counted["step_bytes"]
    assert evidence["extra"] == (counted["waiting"] - 1) * counted["step_bytes"]
    assert evidence["bursts"] >= 60 // counted["waiting"]
    case.at(found, "c11_cycle.py", "c11 make", r"(<listcomp>|__init__)")
    case.only("delayed-release")


def test_a_collector_that_the_program_calls(case):
    """Also where the interpreter's functions have no names: then it is linked, and the advice says of what line."""
    case.play("c11_cycle", 60, "explicit", memory="2G")
    counted, found = case.printed(), case.one("delayed-release")
    evidence = found["evidence"]
    assert evidence["collector"] is True and evidence["confidence"] in ("linked", "seen")
    assert evidence["bytes_per_step"] == counted["step_bytes"] and evidence["generations"] == 5
    assert "circle" in found["advice"]
    if evidence["confidence"] == "linked":
        assert "c11_cycle.py:" in found["advice"] and "gc.collect()" in found["title"]


@pytest.mark.parametrize("mode", ["kept", "nested"])
def test_held_on_purpose(case, mode):
    """Some steps' tensors kept and dropped together by the program: told, but no fault by itself."""
    case.play("c11_cycle", 60, mode, memory="2G")
    counted, found = case.printed(), case.one("delayed-release", "info")
    assert found["evidence"]["collector"] is False
    assert found["evidence"]["bytes_per_step"] == counted["step_bytes"]
    assert found["evidence"]["generations"] == 5
    assert not case.above_info(), case.summary()


def test_a_cycle_that_is_broken(case):
    case.play("c11_cycle", 60, "broken", memory="2G")
    case.none("delayed-release", "linear-growth", "leak", "peak-overlap")
    assert not case.above_info(), case.summary()


def test_a_collector_that_never_runs(case):
    case.play("c11_cycle", 60, "never", memory="2G")
    found = case.one("linear-growth")
    assert found["evidence"]["bytes_per_step"] == case.printed()["step_bytes"]
    case.none("delayed-release")
    case.only("linear-growth")


@pytest.mark.parametrize("mode", ["inference", "kv", "warm", "pieces", "prefetch", "losses", "ema"])
def test_healthy_programs(case, mode):
    """Nothing above info, and of what follows memory over time nothing at all."""
    case.play("healthy", mode, memory="4G")
    case.none("linear-growth", "delayed-release", "ratchet", "peak-overlap", "pool-miss", "leak")
    assert {f["kind"] for f in case.above_info()} <= {"pageable-copy"}, case.summary()


@pytest.mark.parametrize("script", ["transformer", "resnet", "lstm"])
def test_healthy_workloads(case, script):
    case.play(script, memory="4G", status=None)
    case.none("linear-growth", "delayed-release", "ratchet", "peak-overlap", "pool-miss")
