"""Allocations of ever new sizes (MXNet's pool, pull 11041): what was asked for in all against what
rounded sizes would have needed. Not a leak, and nothing that fills with time."""

import pytest

from case import near

# What leads to calls of the driver in each step may be told of as well.
CONSEQUENCES = {"cache-flush-stall", "pageable-copy"}


def wrong(case, *right):
    return {f["kind"] for f in case.above_info()} - set(right) - CONSEQUENCES


def test_each_buffer_is_made_and_freed(program):
    program.play_app("exact_pool", "each", memory="2G")
    counted, found = program.printed(), program.one("pool-miss")
    evidence = found["evidence"]
    assert found["severity"] in ("warning", "problem")
    assert found["bytes"] == evidence["cumulative_bytes"] == counted["asked"]
    assert evidence["peak_bytes"] == counted["most"]
    assert found["count"] == evidence["calls"] == 3 * 119
    assert evidence["form"] == "each freed"
    # Powers of two: what the same program asks for when it rounds.
    assert evidence["rounded_to_powers_of_two"] == 99483648
    assert near(evidence["factor"], counted["asked"] / 99483648)
    assert evidence["reuse_with_rounding"] > 0.9
    program.at(found, "exact_pool.c", "pool", "device_memory")
    program.none("leak", "linear-growth", "delayed-release", "ratchet")
    assert not wrong(program, "pool-miss")


def test_a_pool_of_exact_sizes(program):
    """It fills the device, gives everything back, and fills it again."""
    program.play_app("exact_pool", "exact", memory="256M")
    counted, found = program.printed(), program.one("pool-miss")
    evidence = found["evidence"]
    assert found["bytes"] == evidence["cumulative_bytes"] == counted["asked"]
    assert evidence["form"] == "exact pool" and evidence["given_back_times"] >= 3
    assert 10 * evidence["rounded_to_powers_of_two"] < counted["asked"]
    program.at(found, "exact_pool.c", "pool", "device_memory")
    program.none("leak", "linear-growth", "delayed-release", "ratchet")
    assert not wrong(program, "pool-miss")


@pytest.mark.parametrize("mode, memory", [("rounded", "256M"), ("steady", "2G"), ("load", "2G")])
def test_pools_that_are_used_again(program, mode, memory):
    program.play_app("exact_pool", mode, memory=memory)
    program.none("pool-miss", "leak", "linear-growth", "delayed-release", "ratchet")
    assert not wrong(program)


def test_pytorch_without_its_cache(case):
    case.play("c03_sequences", 80, memory="2G", more_env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    counted, found = case.printed(), case.one("pool-miss")
    evidence = found["evidence"]
    lengths = sum(40 + 8 * (80 - step) for step in range(80))
    assert counted["first"] == 680
    # Three tensors of a step's length, and what the sums take.
    assert near(evidence["cumulative_bytes"], 3 * lengths * counted["row_bytes"])
    assert evidence["factor"] > 4
    case.at(found, "c03_sequences.py", "c03 inputs", "<module>")
    case.none("leak", "linear-growth", "ratchet")


@pytest.mark.parametrize("mode", ["falling", "steady", "buckets"])
def test_pytorch_with_its_cache(case, mode):
    case.play("c03_sequences", 60, mode, memory="4G")
    case.none("pool-miss", "leak", "linear-growth", "ratchet", "delayed-release")
    assert not wrong(case)
