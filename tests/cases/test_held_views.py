"""Memory that tensors hold and nobody uses, as the census at exit saw it."""

import pytest

from case import near

KIND = "storage-held-by-views"
EXIT = {"LAYOUTSPY_CENSUS": "exit"}


def play(case, how):
    case.play("held_views", how, memory="1G", more_env=EXIT)
    return case.one(KIND, "problem")


def test_slices_of_outputs(case):
    finding = play(case, "slices")
    case.at(finding, "held_views.py", "forward", "step")
    assert near(finding["gain_bytes"], case.printed()["bytes"])
    assert "12 small views" in finding["title"] and "kept[*]" in finding["title"]
    assert finding["evidence"]["shape"] == "views" and ".clone()" in finding["advice"]


def test_losses_with_their_graphs(case):
    finding = play(case, "losses")
    assert near(finding["gain_bytes"], case.printed()["bytes"], 0.05)
    assert "kept[*]" in finding["title"] and finding["count"] == 12
    assert finding["evidence"]["shape"] == "graph" and ".detach()" in finding["advice"]


def test_sum_of_losses(case):
    finding = play(case, "sum")
    case.at(finding, "held_views.py", "sum", "step")
    assert near(finding["gain_bytes"], case.printed()["bytes"], 0.1)
    assert "total" in finding["title"] and finding["evidence"]["shape"] == "graph"


def test_modules_left_of_one_buffer(case):
    finding = play(case, "packed")
    case.at(finding, "held_views.py", "packed", "load")
    assert near(finding["gain_bytes"], case.printed()["bytes"])
    assert finding["evidence"]["shape"] == "views" and "loaded" in finding["title"]


def test_cycles(case):
    case.play("held_views", "cycle", memory="1G", more_env=EXIT)
    finding = case.one(KIND, "warning")
    case.at(finding, "held_views.py", "cycle", "__init__")
    assert finding["evidence"]["shape"] == "cycle" and near(finding["bytes"], case.printed()["bytes"])


def test_healthy(case):
    case.play("held_views", "healthy", memory="1G", more_env=EXIT)
    case.none(KIND)
    assert KIND not in [s["kind"] for s in case.told["skipped"]]


@pytest.mark.parametrize("script", ["transformer", "resnet", "lstm"])
def test_healthy_loops(case, script):
    case.play(script, more_env=EXIT)
    assert not [f for f in case.found(KIND) if f["severity"] != "info"], case.summary()
    assert KIND not in [s["kind"] for s in case.told["skipped"]]
