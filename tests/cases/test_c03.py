"""Allocations of ever new sizes (MXNet's pool, pull 11041): what was asked for in all against what
rounded sizes would have needed. Not a leak, and nothing that fills with time."""

import pytest
from synthetic import Trace

from case import MIB, near

# What leads to calls of the driver in each step may be told of as well.
CONSEQUENCES = {"pageable-copy"}


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
    assert wrong(case) <= {"reserved-gap"}  # what the long sequences left


def test_segments_of_ever_new_sizes(program):
    """Steps of one large tensor each, none of which fits what is free: PyTorch's allocator asks for a
    segment each time, and gives the old ones back when four are there. Made by hand."""
    sizes = [(150 - step) * MIB for step in range(120)]
    with Trace(program.out) as trace:
        trace.memory(2 << 30, 4 << 30)
        stack, held = trace.stack("train.py:9 forward", ("/x/libc10_cuda.so", "/x/train")), []
        for step, size in enumerate(sizes):
            now = 1_000_000 * (step + 1)
            if len(held) == 4:
                for row in held:
                    end = trace.call("cudaFree", now, stack=stack)
                    trace.db.execute("UPDATE allocation SET end_ns = ?, end_call = ?, end_reason = 0 WHERE id = ?",
                                     (now, end, row))
                held = []
            address = 0x7F0000000000 + step * (256 * MIB)
            call = trace.call("cudaMalloc", now + 10, stack=stack, fields=(address, size))
            held.append(trace.db.execute(
                "INSERT INTO allocation(start_ns, kind, device, address, size, api, stack, start_call, holder)"
                " VALUES(?, 1, 0, ?, ?, ?, ?, ?, 3)",
                (now + 10, address, size, trace.api("cudaMalloc"), stack, call)).lastrowid)
            block = trace.call("cudaLaunchKernel", now + 20, fields=(1,))  # stands for the allocator's report
            trace.db.execute(
                "INSERT INTO block(id, start_ns, end_ns, free_ns, device, address, size, segment, stack, free_stack,"
                " end_call, thread, end_reason, waited) VALUES(?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?, 1, 0, 0)",
                (block, now + 20, now + 900, now + 900, address, size - MIB, address, stack, stack, block + 1))
            trace.call("cudaLaunchKernel", now + 900, fields=(1,))
    program.told = program.report()
    found = program.one("pool-miss")
    evidence = found["evidence"]
    assert evidence["form"] == "segments" and found["count"] == 120
    assert evidence["cumulative_bytes"] == sum(sizes)
    assert evidence["peak_bytes"] == sum(sizes[:4])
    # Never two tensors at once: one block of each power of two.
    assert evidence["rounded_to_powers_of_two"] == (32 + 64 + 128 + 256) * MIB
    assert found["site"] == "train.py:9 forward"
    program.none("ratchet", "linear-growth", "leak")
