"""Memory that tensors hold and nobody uses, as the census at exit saw it."""

import sqlite3

import pytest

from case import near

KIND = "storage-held-by-views"
EXIT = {"LAYOUTSPY_CENSUS": "exit"}


TRIES = 5  # where others keep the machine busy, two seconds may not be enough for a census


def whole(case, *script, **how):
    """Records until the census was not cut short."""
    for _ in range(TRIES):
        case.out.unlink(missing_ok=True)
        case.play(*script, **how)
        if not case.trace().one("SELECT COUNT(*) FROM census WHERE detail = 'its time ran out'"):
            return


def play(case, how):
    whole(case, "held_views", how, memory="900M", more_env=EXIT)
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


def test_evaluation_with_gradients(case):
    """The forgotten no_grad(): each output that is kept holds its forward pass."""
    finding = play(case, "evaluate")
    assert near(finding["gain_bytes"], case.printed()["bytes"], 0.05)
    assert "kept[*]" in finding["title"] and "no_grad" in finding["advice"]


def test_cycles(case):
    whole(case, "held_views", "cycle", memory="1G", more_env=EXIT)
    finding = case.one(KIND, "warning")
    case.at(finding, "held_views.py", "cycle", "__init__")
    assert finding["evidence"]["shape"] == "cycle" and near(finding["bytes"], case.printed()["bytes"])


@pytest.mark.parametrize("how, shape, name", [("losses", "graph", "kept[*]"), ("slices", "views", "kept[*]"), ("sum", "graph", "total")])
def test_in_the_frame_of_an_exception(case, how, shape, name):
    """The program died of it: when the census looks, only the exception leads to main()'s variables.
    What is of the failed step, or of the one before, need not be counted."""
    whole(case, "held_in_frame", how, memory="900M", status=1)
    finding, told = case.one(KIND, "problem"), case.printed()
    assert (told["steps"] - 3) * told["each"] <= finding["gain_bytes"] <= (told["steps"] + 1) * told["each"]
    assert finding["evidence"]["shape"] == shape and f" main: {name}" in finding["title"]
    assert finding["evidence"]["path"].startswith("exception OutOfMemoryError")
    kinds = [f["kind"] for f in case.told["findings"]]
    assert "oom" in kinds[:4], case.summary()  # what it died of, and why, come first


@pytest.mark.parametrize("how, status", [("step", 1), ("errors", 0)])
def test_failed_steps(case, how, status):
    """What exceptions hold of the steps that failed is no list that grew."""
    whole(case, "held_in_frame", how, memory="900M", status=status, more_env=EXIT)
    assert not [f for f in case.found(KIND) if f["severity"] != "info"], case.summary()
    assert case.found("oom"), case.summary()


def test_healthy(case):
    whole(case, "held_views", "healthy", memory="1G", more_env=EXIT)
    case.none(KIND)
    assert KIND not in [s["kind"] for s in case.told["skipped"]]


@pytest.mark.parametrize("how", ["train", "generate", "pyramid"])
def test_healthy_in_the_middle(case, how):
    """The census is made within a step, where everything is in use."""
    whole(case, "held_rightly", how, memory="900M")
    assert not [f for f in case.found(KIND) if f["severity"] != "info"], case.summary()
    assert KIND not in [s["kind"] for s in case.told["skipped"]]


@pytest.mark.parametrize("script", ["transformer", "resnet", "lstm"])
def test_healthy_loops(case, script):
    whole(case, script, more_env=EXIT)
    assert not [f for f in case.found(KIND) if f["severity"] != "info"], case.summary()
    assert KIND not in [s["kind"] for s in case.told["skipped"]]


@pytest.mark.parametrize("how", ["losses", "slices"])
def test_steps_that_launch_nothing_are_no_age(case, how):
    """What repeats at the program's end (frees) may be told as a loop, with more steps than the main
    one; what is kept is judged by that one."""
    play(case, how)
    before = case.told["findings"]
    with sqlite3.connect(case.out) as db:
        number, begin = db.execute("SELECT MAX(id), MAX(end_ns) FROM step").fetchone()
        (census,) = db.execute("SELECT MAX(ts_ns) FROM census").fetchone()
        width = (census - begin) // 64
        db.executemany("INSERT INTO step(id, loop, source, start_ns, end_ns, calls, launches)"
                       " VALUES(?, 99, 'pattern', ?, ?, 2, 0)",
                       [(number + i, begin + i * width, begin + (i + 1) * width) for i in range(1, 64)])
    case.told = case.report()
    assert case.told["findings"] == before
