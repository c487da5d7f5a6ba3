"""C23: an engine whose kernels are copies for the most part. No call of a library is seen in it: their
names must do."""

FULL = {"LAYOUTSPY_CUPTI": "full"}
COPIES = 2835


def test_copies_are_nearly_all(program):
    program.play_app("reformats", COPIES, 0, memory="1G", more_env=FULL)
    found = program.one("copy-dominated")
    evidence = found["evidence"]
    assert found["count"] == COPIES and found["severity"] in ("warning", "problem")
    assert evidence["gpu_share"] > 0.99 and evidence["launch_bound"]
    assert evidence["copies"][0]["kernel"] == "copyPackedKernel" and evidence["kernels"] == COPIES + 3
    assert abs(evidence["mean_ns"] * COPIES - found["time_ns"]) <= COPIES
    assert "Fuse" in found["advice"] and found["gain_ns"] == found["time_ns"]
    program.at(found, "reformats.c", "enqueue", "enqueue")
    program.only("copy-dominated")
    program.none("conversion-kernels")


def test_copies_are_a_part(program):
    program.play_app("reformats", 1000, 4000, memory="1G", more_env=FULL)
    found = program.one("conversion-kernels")
    assert (found["count"], found["evidence"]["whose_choice"]) == (1000, "no call")
    program.none("copy-dominated")


def test_copies_are_few(program):
    program.play_app("reformats", 40, 0, memory="1G", more_env=FULL)
    program.none("copy-dominated")
    program.only()


def test_without_times(program):
    program.play_app("reformats", COPIES, 0, memory="1G")
    program.none("copy-dominated")
    assert "copy-dominated" in {s["kind"] for s in program.told["skipped"]}
