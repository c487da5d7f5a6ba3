"""C07: cuBLAS's workspaces. One per handle and stream is expected, and never a leak; one more for each
stream that a graph is captured on, or for each handle that is made, grows."""

import pytest


WORKSPACE = 8519680  # bytes, of tests/apps/workspaces.c


def pieces(case):
    """Distinct memory that cublasSetWorkspace was given, by the device's own log: bytes by address."""
    given = {}
    for line in case.log.read_text().splitlines():
        if "\tcublasSetWorkspace_v2\t0\t" in line:
            keys = dict(word.split("=", 1) for word in line.split("\t")[6:])
            given[int(keys["ptr"])] = int(keys["size"])
    return given


# ---- PyTorch ----------------------------------------------------------------------------------


def test_one_layer(case):
    case.play("c07_linear", memory="2G")
    left = case.printed()["bytes"]
    found = case.one("library-workspace", "info")
    assert found["bytes"] == left == sum(pieces(case).values())
    assert found["count"] == 1
    case.at(found, "c07_linear.py", "product", "once")
    case.only()
    case.none("leak", "stream-keyed-growth", "linear-growth")


def test_fresh_streams(case):
    case.play("c07_captures", "fresh", memory="4G")
    told, given = case.printed(), pieces(case)
    found = case.one("stream-keyed-growth", "problem")
    assert found["count"] == told["captures"] == found["evidence"]["streams"]
    # All but the one of the stream that is not captured. A graph has some bytes of its own, too.
    assert found["bytes"] == sum(sorted(given.values())[1:])
    assert 0 <= told["bytes"] - found["bytes"] < 4096
    assert found["evidence"]["capturing"] and "one stream" in found["advice"]
    case.at(found, "c07_captures.py", "capture", "capture")
    assert found["evidence"]["used_at"].endswith(" capture")
    assert case.one("library-workspace", "info")["count"] == 1
    case.only("stream-keyed-growth")
    case.none("leak")


def test_one_capture_stream(case):
    case.play("c07_captures", "one", memory="4G")
    found = case.one("library-workspace", "info")
    assert (found["count"], found["bytes"]) == (2, sum(pieces(case).values()))
    assert len(found["evidence"]["sites"]) == 2
    case.only()
    case.none("leak", "stream-keyed-growth")


# ---- C ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode, count", [("one", 1), ("fixed", 4), ("shared", 1)])
def test_expected(program, mode, count):
    program.play_app("workspaces", mode, memory="1G")
    assert program.printed()["workspaces"] == count
    found = program.one("library-workspace", "info")
    assert (found["count"], found["bytes"]) == (count, count * WORKSPACE)
    assert found["bytes"] == sum(pieces(program).values())
    program.at(found, "workspaces.c", "given", "prepare")
    program.only()
    program.none("leak", "stream-keyed-growth")


def test_one_per_stream(program):
    program.play_app("workspaces", "per_stream", memory="1G")
    told = program.printed()
    found = program.one("stream-keyed-growth", "problem")
    assert found["count"] == told["workspaces"] == found["evidence"]["streams"] == told["streams"]
    assert found["bytes"] == told["bytes"] == sum(pieces(program).values())
    program.at(found, "workspaces.c", "given", "prepare")
    program.only("stream-keyed-growth")
    program.none("leak", "library-workspace")


def test_a_handle_per_call(program):
    """Each is destroyed, and its memory freed: nothing grows."""
    program.play_app("workspaces", "handles", memory="1G")
    program.none("leak", "stream-keyed-growth", "linear-growth")
    assert program.one("library-workspace", "info")["bytes"] == WORKSPACE


def test_handles_that_are_kept(program):
    program.play_app("workspaces", "handles_kept", memory="1G")
    found = program.one("stream-keyed-growth", "warning")
    assert found["count"] == program.printed()["handles"] == found["evidence"]["handles"]
    assert found["evidence"]["key"] == "handle"
    program.at(found, "workspaces.c", "created", "make_handle")
    program.only("stream-keyed-growth")
    program.none("leak")
