"""Images of varying sizes (detectron2 issue 433): the allocator's memory climbs with each new maximum,
what is live does not, and one outlier fails."""

import pytest

OUTLIER = 4 * 16 * 1600 * 1600 * 4  # bytes of the first layer's output for the last batch


def test_new_maxima_and_an_outlier(case):
    case.play("c06_image_sizes", 60, "outlier", memory="320M", status=1)
    records = [int(line.split()[2]) for line in case.outcome.out.splitlines() if line.startswith("record")]
    found = case.one("ratchet", "problem")
    evidence = found["evidence"]
    steps = [row["step"] - 1 for row in evidence["rows"]]  # the script counts from 0
    assert len(steps) >= 3 and set(steps) <= set(records), (steps, records)
    failed = evidence["failed"]
    assert failed["step"] - 1 == records[-1] == 59
    assert failed["request"] == OUTLIER and failed["request"] > 9 * failed["largest_before"]
    assert failed["ratio"] > 50
    # What is live between steps is that of a program whose batches are all alike.
    assert evidence["live_at_last_steps"] < 1.1 * evidence["live_at_first_steps"]
    assert evidence["by_new_maxima"] > 9 * evidence["by_others"]
    case.at(found, "c06_image_sizes.py", "c06 first", "forward")
    case.none("leak", "linear-growth", "delayed-release", "pool-miss")
    assert case.one("oom", "problem")


@pytest.mark.parametrize("mode", ["steady", "warm"])
def test_nothing_larger_comes(case, mode):
    case.play("c06_image_sizes", 40, mode, memory="2G")
    case.none("ratchet", "leak", "linear-growth", "delayed-release", "pool-miss", "peak-overlap")
    assert {f["kind"] for f in case.above_info()} <= {"pageable-copy"}, case.summary()


def test_a_buffer_made_anew_for_a_larger_request(program):
    """No growth: what it held before is given back, and the request that failed is larger than the device."""
    program.play_app("last_request", "scratch", memory="4G", status=1)
    program.one("oom", "problem")
    program.none("linear-growth", "delayed-release", "peak-overlap", "pool-miss")
