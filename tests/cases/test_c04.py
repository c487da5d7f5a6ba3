"""Two large values at once (TensorFlow issue 17092): where the blocks are seen it is an overlap; where
one allocation holds them all, nothing can be seen, and that is what the report says."""

import pytest

MIB = 1 << 20
BLOCK_KINDS = ("peak-overlap", "fragmentation", "reserved-gap", "stranded-remainder")


def test_one_allocation_of_the_whole_device(program):
    program.play_app("one_arena", memory="2G")
    arena = int(program.outcome.out.split(" of ")[2].split()[0])
    skipped = {s["kind"]: s["reason"] for s in program.told["skipped"]}
    for kind in BLOCK_KINDS:
        assert "not visible without the framework's hook" in skipped[kind], skipped
        assert f"one allocation of {arena / (1 << 30):.2f} GiB, 95 % of the device" in skipped[kind]
        assert "one_arena.c" in skipped[kind]
    assert not program.above_info() or {f["kind"] for f in program.above_info()} == {"pageable-copy"}, \
        program.summary()
    program.none("oom", "leak", "linear-growth", "ratchet", "delayed-release", "pool-miss", *BLOCK_KINDS)


def test_the_old_value_is_in_the_way(case):
    case.play("c04_overlap", 128, "held", memory="200M", status=1)
    found = case.one("peak-overlap", "problem")
    assert found["bytes"] == found["evidence"]["overlap"] == 128 * MIB
    assert found["evidence"]["enough_without_it"] is True
    case.at(found, "c04_overlap.py", "c04 make", "make")
    case.only("peak-overlap", "oom")


def test_the_old_value_of_a_step_that_begins_with_it(case):
    """The value grows, and the step that made the last one begins with its own request."""
    case.play("c04_overlap", 90, "growing", memory="300M", status=1)
    found, failed = case.one("peak-overlap", "problem"), case.one("oom", "problem")["evidence"]["requested"]
    assert found["evidence"]["enough_without_it"] is True
    assert found["bytes"] == failed - 2 * MIB
    case.at(found, "c04_overlap.py", "c04 refresh", "refresh")


def test_two_requests_on_one_line(program):
    """Without steps and without a second turn nothing tells an old value from one that is needed."""
    program.play_app("last_request", "twice", memory="2G", status=1)
    program.one("oom", "problem")
    program.none("peak-overlap")


def test_overlap_without_a_failure(case):
    """Noted; with twice the memory there, nobody has to do anything."""
    case.play("c04_overlap", 128, "held", memory="4G")
    found = case.one("peak-overlap", "info")
    assert found["bytes"] == 128 * MIB and found["evidence"]["live"] >= 256 * MIB
    case.at(found, "c04_overlap.py", "c04 make", "make")
    assert not case.above_info(), case.summary()


@pytest.mark.parametrize("mode", ["dropped", "chain", "loader"])
def test_values_that_are_needed(case, mode):
    case.play("c04_overlap", 128, mode, memory="4G")
    case.none("peak-overlap", "linear-growth", "delayed-release")
    assert {f["kind"] for f in case.above_info()} <= {"pageable-copy"}, case.summary()


def test_double_buffering(program):
    program.play_app("double_buffer")
    assert not program.told["findings"], program.summary()
