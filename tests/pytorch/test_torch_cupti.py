"""PyTorch recorded by the hooks and CUPTI together: every call as the log has it, and every kernel, copy and
memset that the simulated device did, once, with its times."""

from collections import Counter

import pytest

from test_workloads import WORKLOADS, argv, run_how

CHOSEN = ["randn", "linear", "half_matmul", "bmm", "conv", "channels_last", "amp", "loader", "graphs", "streams", "oom"]
SLACK = 50_000  # ns, between the device's clock and the trace's: both are read on a loaded machine


def notes(log):
    """The device's own notes of its work, as dictionaries."""
    for line in open(log, errors="replace"):
        if line.startswith("#gpu "):
            yield dict(word.split("=", 1) for word in line.split()[2:])


def done(log, kind):
    return [note for note in notes(log) if note["kind"] == kind]


def kernels_of(trace):
    return Counter(row["name"] for row in trace.rows("SELECT name FROM kernel_run"))


def check_work(trace, log):
    kernels = Counter(note["name"] for note in done(log, "kernel"))
    assert kernels_of(trace) == kernels
    for kind, table in (("copy", "copy"), ("memset", "memset")):
        said = Counter(int(note["bytes"]) for note in done(log, kind))
        seen = Counter(row[0] for row in trace.rows("SELECT v0 FROM gpu_work WHERE kind = ?",
                                                    {"copy": 2, "memset": 3}[kind]))
        assert seen == said, f"{kind}: more {seen - said}, less {said - seen}"


def check_times(trace, log):
    origin = int(trace.meta("start_real_ns"))
    said = sorted((int(n["start_real"]) - origin, int(n["end_real"]) - origin) for n in done(log, "kernel"))
    seen = sorted(tuple(row) for row in trace.rows("SELECT start_ns, end_ns FROM kernel_run"))
    assert len(seen) == len(said)
    for (start, end), (true_start, true_end) in zip(seen, said):
        assert abs(start - true_start) < SLACK and abs(end - true_end) < SLACK
        assert abs((end - start) - (true_end - true_start)) < 1000


@pytest.mark.parametrize("name", [name for name in CHOSEN if name in WORKLOADS])
def test_hooks_and_cupti(torch, name):
    how = run_how(name)
    more = dict(how.pop("more_env") or {}, LAYOUTSPY_CUPTI="full", LAYOUTSPY_GRAPHS="nodes", STANDIN_LOG_GPU="1")
    outcome = torch.go(*argv(torch, name), more_env=more, **how)
    assert (outcome.status, outcome.out) == (0, WORKLOADS[name]["line"] + "\n"), repr(outcome)
    torch.assert_all_true()
    trace = torch.trace()
    assert trace.lost() == {}
    check_work(trace, torch.log)
    check_times(trace, torch.log)
    assert trace.one("SELECT COUNT(*) FROM gpu_work WHERE kind IN (1, 2, 3) AND call IS NULL") == 0
