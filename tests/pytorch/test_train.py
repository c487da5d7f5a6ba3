"""A training script with a leak, an unpinned loader and one `.item()` per step: each of those events
names the script's own line. The lines are found by their marker comments."""

import json

import pytest

from harness import site_matches
from torch_harness import HERE, TorchHarness

STEPS, BATCH = 24, 8
IMAGES, LABELS = BATCH * 3 * 16 * 16 * 4, BATCH * 8


@pytest.fixture(scope="module", params=["preload", "run"])
def training(request, torch_python, tmp_path_factory):
    """The script recorded, by LD_PRELOAD and by `layoutspy run`."""
    torch = TorchHarness(tmp_path_factory.mktemp("train"), torch_python)
    script, kept = HERE / "train.py", torch.folder / "kept.json"
    if request.param == "preload":
        outcome = torch.go(script, kept)
    else:
        outcome = torch.go_run(script, kept)
    assert (outcome.status, outcome.out.splitlines()[0]) == (0, f"{STEPS} steps, {2 * STEPS} tensors kept")
    torch.kept = json.loads(kept.read_text())
    return torch


def sites(trace, sql, *values):
    return [row["site"] for row in trace.rows(sql, *values)]


def all_at(found, marker, function):
    """Every site is the marked line's."""
    wrong = [site for site in found if not site_matches(site, "train.py", f"train {marker}", function)]
    assert not wrong, f"{len(wrong)} of {len(found)} elsewhere, as {sorted(set(wrong))[:5]}"


def test_trace_equals_the_truth(training):
    training.assert_true()
    assert training.trace().lost() == {}


@pytest.mark.parametrize("marker, function", [("keep", "log_output"), ("keep in forward", "forward")])
def test_every_leaked_block_names_the_line_that_kept_it(training, marker, function):
    """A kept tensor's block is the last one at its address."""
    trace, kept = training.trace(), training.kept[marker]
    assert len(kept) == STEPS
    found = []
    for address, size in kept:
        rows = trace.rows("SELECT size, site, end_ns FROM block_lifetime WHERE address = ? ORDER BY start_ns", address)
        assert rows, f"no block at {address:#x}"
        assert rows[-1]["size"] == (size + 511) // 512 * 512
        found.append(rows[-1]["site"])
    all_at(found, marker, function)


@pytest.mark.parametrize("marker, size", [("images", IMAGES), ("labels", LABELS)])
def test_every_unpinned_batch_names_the_line_that_sent_it(training, marker, size):
    found = sites(training.trace(), "SELECT site FROM all_copy WHERE direction = 'H2D' AND src_kind = 'pageable' "
                                    "AND bytes = ?", size)
    assert len(found) == STEPS
    all_at(found, marker, "train_epoch")


def test_the_model_names_the_line_that_moved_it(training):
    """All pageable copies are the batches and the model's four parameters."""
    found = sites(training.trace(), "SELECT site FROM pageable_copy WHERE direction = 'H2D' AND bytes NOT IN (?, ?)",
                  IMAGES, LABELS)
    assert len(found) == 4
    all_at(found, "model", "main")


def test_every_item_names_its_line(training):
    found = sites(training.trace(), "SELECT site FROM all_copy WHERE direction = 'D2H'")
    assert len(found) == STEPS
    all_at(found, "item", "train_epoch")


def test_findings_name_the_lines(training):
    found = {f["site"] for f in training.findings() if f["kind"] == "pageable-copy"}
    for marker in ("images", "labels"):
        assert any(site_matches(site, "train.py", f"train {marker}", "train_epoch") for site in found), found
