"""C01: half of the device cannot be used, because a few small tensors keep one very large segment."""

from case import MIB, near

CAPACITY = 23_320_330_240
QUIET = ("reserved-gap", "pending-free", "oom-cascade", "oom-fitting-block")


def segment_of(finding):
    segments = finding["evidence"]["segments"]
    assert len(segments) == 1
    return segments[0]


def test_the_pinned_segment_is_named(case):
    case.play("c01_pinned_segment", memory=CAPACITY)
    script = case.printed()
    found = case.one("fragmentation", "problem")
    case.at(found, "c01_pinned_segment.py", "c01 features", "keep_features")
    segment, evidence = segment_of(found), found["evidence"]
    temporary = 11_643_387_904
    assert segment["size"] == -(-temporary // (2 * MIB)) * 2 * MIB
    assert (segment["live"], segment["blocks"]) == (script["pinned"], script["blocks"])
    assert segment["live"] + segment["free"] == segment["size"]
    assert found["bytes"] == segment["free"]
    assert "4.1 %" in found["title"]
    # The driver's own figures: what was missing, and that this one segment has more.
    assert (evidence["device_free"], evidence["reserved"]) == (script["free"], script["reserved"])
    assert evidence["missing"] == segment["size"] - script["free"] < segment["size"]
    assert "568 MiB" in found["title"] and "not too small" in evidence["why"]
    pins = evidence["pinned_by"]
    assert pins[0]["site"] == found["site"] and pins[0]["oldest_age_ns"] > 0
    assert (pins[0]["bytes"], pins[0]["blocks"]) == (script["pinned"], script["blocks"])


def test_the_oom_says_in_pieces(case):
    case.play("c01_pinned_segment", memory=CAPACITY)
    script = case.printed()
    oom = case.one("oom", "problem")
    case.at(oom, "c01_pinned_segment.py", "c01 temporary", "widen")
    evidence = oom["evidence"]
    assert evidence["verdict"] == "fragmented" and evidence["confidence"] == "seen"
    assert evidence["requested"] == oom["bytes"] == 11_643_387_904
    assert evidence["capacity"] == CAPACITY
    assert evidence["allocated"] == script["pinned"] + script["weights"]
    assert evidence["gap"] == script["reserved"] - evidence["allocated"]
    assert [c["what"] for c in evidence["sequence"]] == ["request failed", "request failed", "asked what is free",
                                                         "allocator reported it"]
    assert "expandable_segments" in oom["advice"] and "batch" not in oom["advice"]
    case.only("oom", "fragmentation")
    case.none(*QUIET)


def test_expandable_segments_have_no_such_problem(case):
    case.play("c01_pinned_segment", memory=CAPACITY, more_env={"PYTORCH_ALLOC_CONF": "expandable_segments:True"})
    case.only()
    case.none("oom", "fragmentation")


def test_released_in_time(case):
    """Given back before others are cut from it: no oom, and nothing to say."""
    case.play("c01_pinned_segment", "emptied", memory=CAPACITY)
    case.only()
    case.none("oom", "fragmentation")
    assert near(case.printed()["pinned"], 477_004_288)
