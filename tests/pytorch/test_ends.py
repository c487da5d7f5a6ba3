"""Python programs with CUDA that end in every way, or are disturbed: nothing hangs or crashes, the
program prints and exits as without us, and the trace is whole."""

import pytest

# way -> exit status, what it prints. `compare`: stderr is what it is without us. `tail`: calls per
# thread that may be missing, because the process ends while they are made.
WAYS = {
    "alive": {"line": "alive"},
    "at_exit": {"line": "at exit cuda:0"},
    "daemon": {"line": "daemons run", "tail": 1},
    "leave": {"line": "leaving", "status": 7},
    "kill": {"line": "killing", "status": -9},
    "abort": {"line": "aborting", "status": -6, "compare": True},
    "exit_in_thread": {"line": "thread is gone", "status": 5},
    "uncaught": {"line": None, "status": 1, "compare": True},
    "caught": {"line": "AcceleratorError OutOfMemoryError ValueError 9"},
    "alarm": {"line": "50 alarms"},
    "interrupted": {"line": "interrupted"},
    "collected": {"line": "collected True"},
    "broken_import": {"line": "failed True, loaded True, 20 rounds", "compare": True},
    "extension_only": {"line": "torch False, 20 rounds"},
    "sub_interpreter": {"line": "3 sub-interpreters"},
    "native_thread": {"line": "100 rounds"},
}


def check(torch, outcome, way):
    expected = WAYS[way]
    out = expected["line"] + "\n" if expected["line"] else ""
    assert (outcome.status, outcome.out) == (expected.get("status", 0), out), repr(outcome)
    torch.assert_true(allow_tail=expected.get("tail", 0))
    assert torch.trace().lost() == {}


@pytest.mark.parametrize("way", WAYS)
def test_preloaded(torch, way):
    outcome = torch.go("ends", way, torch.library())
    check(torch, outcome, way)
    err = torch.go_plain("ends", way, torch.library()).err if WAYS[way].get("compare") else ""
    assert outcome.err == err


@pytest.mark.parametrize("way", ["alive", "daemon", "leave", "uncaught", "broken_import"])
def test_run_records_it_too(torch, way):
    """`layoutspy run` passes the status on and adds its summary to what the script says."""
    outcome = torch.go_run("ends", way, torch.library())
    line = WAYS[way]["line"]
    assert outcome.status == WAYS[way].get("status", 0), repr(outcome)
    assert line is None or outcome.out.splitlines()[0] == line
    torch.assert_true(allow_tail=WAYS[way].get("tail", 0))
    assert torch.trace().lost() == {}
