"""Steps are the program's iterations: as many as it says, each from its first call to its last.

tests/apps/loops.c asks for the free memory at the beginning of each iteration, and nowhere else;
nothing marks those of tests/apps/rounds.c.
"""

import re

import pytest

from harness import app

MARKER = "SELECT start_ns FROM api_call WHERE api = 'cudaMemGetInfo' ORDER BY id"


def record(harness, mode):
    outcome = harness.record([app("loops"), mode])
    assert outcome.status == 0 and outcome.err == "", repr(outcome)
    steps = [tuple(row) for row in harness.trace().rows("SELECT start_ns, end_ns FROM step ORDER BY id")]
    markers = [row[0] for row in harness.trace().rows(MARKER)]
    assert len(markers) == int(re.fullmatch(r"(\d+) iterations\n", outcome.out)[1])
    return steps, markers


def figures(harness, columns):
    return {tuple(row) for row in harness.trace().rows(f"SELECT {columns} FROM step")}


@pytest.mark.parametrize("mode, count, launches", [("inference", 50, 9), ("layers", 20, 24), ("epochs", 120, 6)])
def test_as_many_as_the_program_says(harness, mode, count, launches):
    steps, markers = record(harness, mode)
    assert len(steps) == len(markers) == count
    assert [start for start, _ in steps] == markers
    assert all(end <= start for (_, end), (start, _) in zip(steps, steps[1:]))
    assert figures(harness, "source, loop, launches, h2d_bytes") == {("pattern", 1, launches, 8192)}
    assert harness.trace().meta("steps") == "pattern"


# Kernels in each iteration.
ROUNDS = {"one": 1, "bare": 0, "pair": 1, "waited": 0, "spread": 3, "lines": 1, "kernels": 7, "growing": 2,
          "pooled": 1, "scratch": 5, "logged": 2, "polled": 1, "accumulate": 9, "accumulate-logged": 9,
          "inner": 6, "layers": 61}


@pytest.mark.parametrize("count", [16, 400])
@pytest.mark.parametrize("mode", ROUNDS)
def test_nothing_marks_them(harness, mode, count):
    outcome = harness.record([app("rounds"), mode, str(count)])
    assert outcome.status == 0 and outcome.out == f"{count} iterations\n", repr(outcome)
    assert figures(harness, "source, loop, launches") == {("pattern", 1, ROUNDS[mode])}
    assert harness.trace().one("SELECT COUNT(*) FROM step") == count


def test_evaluations_are_outside(harness):
    steps, _ = record(harness, "epochs")
    reads = [row[0] for row in harness.trace().rows("SELECT start_ns FROM copy WHERE direction = 2")]
    assert len(reads) == 36
    assert not [at for at in reads for start, end in steps if start <= at < end]


def test_allocations_and_peaks_of_a_step(harness):
    record(harness, "layers")
    # 8 blocks of scratch, one at a time, beside what was loaded (42 of 8192 bytes).
    assert figures(harness, "allocations, allocated_bytes, peak_memory, peak_allocated") == {
        (8, 8 * 8192, 43 * 8192, None)}


def test_marks_override_the_pattern(harness):
    steps, markers = record(harness, "marked")
    assert len(steps) == len(markers) == 5
    for (start, end), marker in zip(steps, markers):
        assert start <= marker < end
    assert figures(harness, "source, launches, copies") == {("marked", 21, 7)}


def test_a_mark_before_the_first_call_counts(harness):
    steps, markers = record(harness, "early")
    assert len(steps) == len(markers) == 5 and steps[0][0] == 0
    for (start, end), marker in zip(steps, markers):
        assert start <= marker < end


def test_no_loop_is_said(harness):
    steps, _ = record(harness, "straight")
    assert steps == [] and harness.trace().meta("steps") == "none"
    assert harness.trace().one("SELECT state FROM coverage WHERE layer = 'steps'") == "off"
