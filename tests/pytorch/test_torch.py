"""The stock PyTorch wheel, trained for 20 steps under LD_PRELOAD: trace equal to the ground truth,
each step's unpinned batch found, the extension's lost buffer found, the framework's cache not."""

import os
from collections import Counter

import pytest

from harness import PLUGIN, site_matches
from torch_harness import HERE, TorchHarness

SCRIPT = HERE / "train_cnn.py"
IMAGES, LABELS, STEPS = 16 * 3 * 32 * 32 * 4, 16 * 8, 20


@pytest.fixture(scope="module")
def training(torch_python, tmp_path_factory):
    torch = TorchHarness(tmp_path_factory.mktemp("training"), torch_python)
    torch.outcome = torch.go(SCRIPT, PLUGIN)
    return torch


def test_trains_as_without_us(training, torch_python):
    assert training.outcome.status == 0, repr(training.outcome)
    assert training.outcome.out == "20 steps, loss on cuda, 1048576 numbers kept\n"
    without = training.go_plain(SCRIPT, PLUGIN)
    assert training.outcome.same_as(without), f"{training.outcome}\n{without}"


def test_trace_equals_the_truth(training):
    counts = training.assert_true()
    assert counts["copies"] >= 2 * STEPS and counts["allocations"] > 0
    trace = training.trace()
    assert trace.lost() == {}
    assert trace.one("SELECT COUNT(*) FROM call JOIN api ON api.id = call.api WHERE class = 'launch'") > 10 * STEPS
    unnamed = trace.one("SELECT COUNT(*) FROM api_call WHERE class = 'launch' AND f0 NOT IN (SELECT id FROM kernel)")
    assert unnamed == 0


def test_each_steps_batch_is_a_pageable_copy(training):
    sizes = Counter(row["bytes"] for row in training.trace().rows(
        "SELECT bytes FROM pageable_copy WHERE direction = 'H2D' AND src_kind = 'pageable' AND dst_kind = 'device'"))
    want = Counter({IMAGES: STEPS, LABELS: STEPS})
    want += Counter([16 * 3 * 9 * 4, 16 * 4, 32 * 16 * 9 * 4, 32 * 4, 10 * 2048 * 4, 10 * 4])  # the model, once
    want += Counter({4: 5})  # the extension
    assert sizes == want
    found = [f for f in training.findings() if f["kind"] == "pageable-copy"]
    assert sum(f["bytes"] for f in found) >= STEPS * (IMAGES + LABELS)
    assert any(f["severity"] != "info" for f in found)


def test_lost_buffer_is_a_leak_and_the_cache_is_not(training):
    """What PyTorch's allocator still holds at exit, the tensor kept for ever among it, is cached."""
    leaks = [f for f in training.findings() if f["kind"] == "leak" and f["severity"] != "info"]
    assert [(f["count"], f["bytes"]) for f in leaks] == [(1, 4096)], leaks
    assert site_matches(leaks[0]["site"], "plugin.c", "plugin leak", "plugin_lose")
    held = training.trace().one("SELECT SUM(size) FROM live_allocation WHERE kind = 'device'")
    assert held >= (4 << 20) + 4096
    told = training.layoutspy("report", training.out).out.lower()
    assert "cached" in told


def test_stacks_reach_the_interpreter_or_the_script(training):
    """A copy's stack holds PyTorch's frames by name, in the right libraries."""
    trace = training.trace()
    stack = trace.one("SELECT stack FROM pageable_copy WHERE bytes = ? LIMIT 1", IMAGES)
    frames = trace.rows("SELECT * FROM stack_frame WHERE stack_id = ? ORDER BY depth", stack)
    modules = {os.path.basename(f["module"] or "") for f in frames}
    assert {"libtorch_cuda.so", "libtorch_cpu.so", "libtorch_python.so"} <= modules, modules
    assert len(frames) >= 10
    assert any("copy" in f["function"] for f in frames)
