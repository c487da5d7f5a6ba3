"""C05: the allocator gives up while a block that fits has just come back into its pool."""

from case import MIB

# A kernel takes long enough for the block to be pending when the request comes.
SLOW = {"STANDIN_DELAY_US": 200000}


def test_a_fitting_block_became_free_inside_the_call(case):
    case.play("c05_fitting_block", memory="2G", more_env=SLOW)
    found = case.one("oom-fitting-block", "problem")
    case.at(found, "c05_fitting_block.py", "c05 request", "ask")
    evidence = found["evidence"]
    assert found["bytes"] == case.printed()["hole"] == evidence["largest_hole"]
    assert evidence["requested"] == 550 * MIB <= evidence["largest_hole"]
    assert evidence["largest_hole_before"] == (1024 - 600 - 100) * MIB
    block = evidence["block"]
    assert block["size"] == 600 * MIB
    assert block["free_site"].endswith("<module>") and block["given_back_ns"] < block["free_ns"]
    oom = case.one("oom", "problem")
    assert oom["evidence"]["verdict"] == "a fitting block was free"
    for words in (oom["advice"], found["advice"]):
        assert "max_split" not in words and "expandable" not in words
    case.only("oom", "oom-fitting-block")
    assert all(f["severity"] == "info" for f in case.found("pending-free"))
    case.none("fragmentation", "oom-cascade")


def test_waiting_for_the_stream_avoids_it(case):
    case.play("c05_fitting_block", "wait", memory="2G", more_env=SLOW)
    assert case.outcome.out == "fits\n"
    case.only()
    case.none("oom", "oom-fitting-block")


def test_a_block_of_another_stream_does_not_fit(case):
    """The same, but the block was made on the side stream: the request may not have it."""
    case.play("c05_fitting_block", "theirs", memory="2G", more_env=SLOW)
    assert case.one("oom", "problem")["evidence"]["verdict"] == "a fitting hole in another pool"
    case.only("oom")
    case.none("oom-fitting-block")
