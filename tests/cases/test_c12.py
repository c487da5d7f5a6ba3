"""Two sessions in turn, one of which takes a new region each time (ONNX Runtime issue 29351): growth by
as much in each iteration, one allocation each, never used again."""

import signal


def test_grows_until_memory_runs_out(program):
    program.play_app("two_sessions", "grow", memory="160M", status=1)
    counted, found = program.printed(), program.one("linear-growth", "problem")
    evidence = found["evidence"]
    assert evidence["bytes_per_step"] == counted["region_bytes"]
    assert evidence["smallest"] == evidence["largest"] == counted["region_bytes"]
    assert evidence["reuses_seen"] == 0
    # The second session's regions alone: the first one has enough after three.
    assert found["count"] == counted["iterations"]
    assert found["bytes"] == counted["iterations"] * counted["region_bytes"]
    assert evidence["exhausted_at_step"] == counted["iterations"] + 1
    assert any("rank_pairs" in caller for caller in evidence["callers"]), evidence["callers"]
    program.at(found, "two_sessions.c", "extend", "arena_extend")
    assert not [f for f in program.found("leak") if f["severity"] != "info"], program.summary()
    assert {f["kind"] for f in program.above_info()} <= {"linear-growth", "oom", "pageable-copy"}


def test_killed_in_the_middle(program):
    program.play_app("two_sessions", "kill", "40", memory="4G", status=-signal.SIGKILL)
    found = program.one("linear-growth")
    assert found["severity"] != "info" and found["evidence"]["confidence"] == "estimated"
    assert found["evidence"]["bytes_per_step"] == 16 << 20
    assert not [f for f in program.found("leak") if f["severity"] != "info"], program.summary()


def test_given_back_at_the_end(program):
    program.play_app("two_sessions", "until", "30", memory="4G")
    found = program.one("linear-growth")
    assert found["evidence"]["bytes_per_step"] == 16 << 20
    program.none("leak")


def test_one_session_has_enough(program):
    program.play_app("two_sessions", "alone", "30", memory="4G")
    program.none("linear-growth", "leak", "delayed-release", "peak-overlap", "pool-miss")


def test_in_pytorch(case):
    case.play("c12_two_sessions", 100, memory="240M", status=1)
    counted, found = case.printed(), case.one("linear-growth", "problem")
    evidence = found["evidence"]
    assert evidence["bytes_per_step"] == counted["region_bytes"]
    assert evidence["exhausted_at_step"] == counted["requests"] + 1
    case.at(found, "c12_two_sessions.py", "c12 region", "region")
    case.only("linear-growth", "oom")


def test_in_pytorch_one_session(case):
    case.play("c12_two_sessions", 40, "first", memory="4G")
    case.none("linear-growth", "delayed-release", "peak-overlap", "ratchet")
    assert not case.above_info(), case.summary()
