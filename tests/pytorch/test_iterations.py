"""Steps of PyTorch loops: as many as the script says, one in each of its iterations; and NVTX."""

import re

import pytest

from harness import LIBRARY

MARKER = "SELECT start_ns FROM api_call WHERE api = 'cudaMemGetInfo' ORDER BY id"
MODES = {"adam": (25, "optimizer"), "sgd": (25, "pattern"), "epochs": (24, "optimizer"),
         "accumulate": (8, "optimizer"), "gan": (12, "optimizer"), "scaler": (15, "optimizer"),
         "inference": (30, "pattern"), "tokens": (40, "pattern")}


def iterate(torch, mode, **how):
    outcome = torch.go("iterate", mode, **how)
    assert outcome.status == 0, repr(outcome)
    trace = torch.trace()
    steps = [tuple(row) for row in trace.rows("SELECT start_ns, end_ns FROM step ORDER BY id")]
    markers = [row[0] for row in trace.rows(MARKER)]
    assert len(markers) == int(re.fullmatch(r"(\d+) iterations\n", outcome.out)[1])
    return trace, steps, markers


@pytest.mark.parametrize("mode", MODES)
def test_as_many_as_the_script_says(torch, mode):
    count, source = MODES[mode]
    trace, steps, markers = iterate(torch, mode)
    assert trace.meta("steps") == source
    assert len(steps) == len(markers) == count
    # The question is the first thing in an iteration; what the end of the one before left to do (a
    # scaler's update, gradients that are dropped) may stand before it.
    for (start, end), marker, following in zip(steps, markers, markers[1:] + [None]):
        assert start <= marker < end
        assert following is None or end <= following
    launches = [row[0] for row in trace.rows("SELECT launches FROM step ORDER BY id")]
    assert min(launches) > 0
    peaks = [row[0] for row in trace.rows("SELECT peak_allocated FROM step")]
    assert all(peak and peak > 0 for peak in peaks)


# How many iterations, and how many launches each has once the first ones are over.
ROUNDS = {"one": (60, 1), "pair": (60, 2), "pair_bare": (60, 0), "pair_spread": (60, 3), "pair_around": (60, 20),
          "lines": (60, 2), "sizes": (60, 20), "growing": (400, 1), "growing_small": (400, 1), "cache": (60, 3),
          "streams": (60, 1), "logged": (60, 1), "accumulate": (12, 45), "accumulate_logged": (60, 45),
          "inner": (60, 15), "diffusion": (60, 42), "generator": (60, 3)}


@pytest.mark.parametrize("mode", ROUNDS)
def test_nothing_marks_them(torch, mode):
    count, launches = ROUNDS[mode]
    outcome = torch.go("rounds", mode, str(count))
    assert outcome.status == 0 and outcome.out == f"{count} iterations\n", repr(outcome)
    steps = [row[0] for row in torch.trace().rows("SELECT launches FROM step ORDER BY id")]
    assert len(steps) == count and set(steps[3:-1]) == {launches}


@pytest.mark.parametrize("setting", ["PYTORCH_ALLOC_CONF=expandable_segments:True", "LAYOUTSPY_STACKS=off"])
def test_an_allocator_that_asks_for_more(torch, setting):
    outcome = torch.go("rounds", "growing", "400", more_env=dict([setting.split("=")]))
    assert outcome.status == 0, repr(outcome)
    assert torch.trace().one("SELECT COUNT(*) FROM step") == 400


def test_evaluations_are_outside(torch):
    trace, steps, _ = iterate(torch, "epochs")
    reads = [row[0] for row in trace.rows(
        "SELECT start_ns FROM all_copy WHERE direction = 'D2H' AND site LIKE '%evaluate'")]
    assert len(reads) == 15
    assert not [at for at in reads for start, end in steps if start <= at < end]


def test_nvtx_ranges_of_torch(torch):
    trace, _, _ = iterate(torch, "nvtx", more_env={"NVTX_INJECTION64_PATH": LIBRARY})
    rows = [tuple(row) for row in trace.rows(
        "SELECT name, COUNT(*), SUM(end_ns > start_ns), MIN(depth), MAX(depth) FROM phase WHERE domain = ''"
        " GROUP BY name ORDER BY name")]
    assert rows == [("backward", 5, 5, 0, 0), ("forward", 5, 5, 0, 0)]
    assert trace.one("SELECT COUNT(*) FROM mark WHERE kind = 6 AND text = 'done'") == 5
    outside = trace.one(
        "SELECT COUNT(*) FROM all_copy AS c WHERE direction = 'H2D' AND site LIKE '%loss_of' AND NOT EXISTS("
        "SELECT 1 FROM phase WHERE name = 'forward' AND c.start_ns BETWEEN phase.start_ns AND phase.end_ns)")
    assert outside == 0
    found = [f for f in torch.findings() if f["kind"] == "pageable-copy" and f["site"].endswith("loss_of")]
    assert found and all(f["evidence"]["nvtx_phase"]["name"] == "forward" for f in found)
