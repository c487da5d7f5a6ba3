"""Programs without any problem: nothing above info, and the reports say so in words."""

import json
from pathlib import Path

import pytest

LOOPS = ["cnn", "transformer", "resnet", "inference", "amp", "graph", "loader", "sizes", "epochs"]

# Workloads of PyTorch that send what they make on the host, as people do: unpinned copies are to be
# found there, and nothing else is.
WORKLOADS = ["amp", "channels_last", "checkpoint", "conv", "embedding", "graphs", "linear", "loader", "lstm",
             "optimizers", "resnet", "sdpa", "streams", "transformer"]

APPS = [["loops", "inference"], ["loops", "epochs"], ["loops", "marked"], ["double_buffer"],
        ["thread_streams"], ["graphs"], ["flushes", "kept"]]


def no_memory_ran_out(case):
    text = case.layoutspy("oom", case.out)
    assert (text.status, text.err) == (0, ""), repr(text)
    told = case.layoutspy("oom", "--json", case.out)
    assert told.status == 0 and json.loads(told.out)["events"] == []
    return text.out


@pytest.mark.parametrize("loop", LOOPS)
def test_loops(case, loop):
    case.play("quiet", loop, memory="2G")
    case.only()
    text = case.layoutspy("report", case.out)
    assert text.status == 0 and "No problems found" in text.out, repr(text)
    assert "among what" not in text.out
    assert "No out-of-memory error" in no_memory_ran_out(case)


@pytest.mark.parametrize("name", WORKLOADS)
def test_workloads(case, name):
    case.play(name, memory="2G")
    assert {f["kind"] for f in case.above_info()} <= {"pageable-copy"}, case.summary()
    no_memory_ran_out(case)


def test_train_cnn(case):
    """What is to be found there is found by other tests; here, that nothing else is."""
    case.judge(case.go(Path(__file__).resolve().parents[1] / "pytorch" / "train_cnn.py"), 0)
    assert {f["kind"] for f in case.above_info()} <= {"pageable-copy"}, case.summary()
    no_memory_ran_out(case)


@pytest.mark.parametrize("command", APPS, ids=" ".join)
def test_programs(program, command):
    program.play_app(*command, memory="1G")
    assert {f["kind"] for f in program.above_info()} <= {"pageable-copy"}, program.summary()
    no_memory_ran_out(program)
