"""Every way for a process to end: it behaves as without us, and what it committed is in the trace."""

import signal

import pytest

from harness import fault

# way: status, calls that the program makes for certain
WAYS = {
    "return": (0, 30), "exit": (3, 30), "_exit": (4, 30), "quick_exit": (5, 30),
    "abort": (-signal.SIGABRT, 30), "segv": (-signal.SIGSEGV, 30), "term": (-signal.SIGTERM, 30),
    "main-leaves": (7, 90), "late-tsd": (0, 30 + 4 * (6 + 12)), "late": (8, 30 + 9 + 6),
}


@pytest.mark.parametrize("way", WAYS)
def test_ending(harness, way):
    status, calls = WAYS[way]
    outcome = harness.same_with_and_without([fault("exits"), way])
    assert outcome.status == status
    assert harness.assert_true()["recorded"] == calls
    # Of _exit and quick_exit nobody tells the library, so the trace may not know; never the wrong one.
    assert harness.trace().meta("ended") in ("unknown", "killed" if status < 0 else "exit")


def test_threads_that_outlive_main(harness):
    """Threads in the middle of calls while main returns: all but the call in flight is there."""
    outcome = harness.same_with_and_without([fault("exits"), "detached"])
    assert outcome.status == 6
    assert harness.assert_true(allow_tail=1)["recorded"] > 100


def test_calls_before_main_and_after_our_destructor(harness):
    outcome = harness.same_with_and_without([fault("early")])
    assert (outcome.status, outcome.out) == (0, "done\n")
    counts = harness.assert_true()
    assert (counts["recorded"], counts["allocations"], counts["live"]) == (7, 2, 0)
    assert harness.findings(above_info=True) == [f for f in harness.findings() if f["kind"] == "pageable-copy"
                                                 and f["severity"] != "info"]


def test_late_frees_are_no_leaks(harness):
    harness.record([fault("exits"), "late"])
    assert [f for f in harness.findings() if f["kind"] == "leak"] == []

