"""PyTorch recorded by the hooks and CUPTI together: every workload's calls as the log has them, and every kernel,
copy and memset that the simulated device did, once, with its times.

The device's notes (#gpu lines of the log) are the judge. What began in a gap may be missing: while a profiler of
the program's own had CUPTI, or where a process ended without its exit handlers. Workloads of several processes,
those without work and second ones of a kind are for the long run only (LAYOUTSPY_LONG=1).
"""

import os
from collections import Counter, defaultdict

import pytest

from test_workloads import WORKLOADS, argv, run_how

LONG = os.environ.get("LAYOUTSPY_LONG") == "1"
LATER = ("spawned", "shared", "forked", "forked_first", "imported", "init", "pinned registered", "embedding", "optimizers",
         "checkpoint")
SLACK = 50_000  # ns, between the device's clock and the trace's: both are read on a loaded machine
FULL = {"LAYOUTSPY_CUPTI": "full", "LAYOUTSPY_GRAPHS": "nodes", "STANDIN_LOG_GPU": "1"}
GAPS = {"profiler": 1, "forked_first": 2}  # workload -> how many of its traces have any
KINDS = {"kernel": 1, "copy": 2, "memset": 3}  # as in gpu_work
ROWS = 10


def later(name, is_later):
    return pytest.param(name, marks=pytest.mark.skipif(is_later and not LONG, reason="long: --long"))


class Work:
    """One run of a kernel, copy or memset: what it was, when it began, how long it took."""

    def __init__(self, what, start, end):
        self.what, self.start, self.ns = what, start, end - start


class Notes:
    """What the device noted of one process's work, on the trace's clock."""

    def __init__(self, log, trace):
        pid, origin = trace.pid(), int(trace.meta("start_real_ns"))
        self.work = {kind: [] for kind in KINDS}
        for line in open(log, errors="replace"):
            if not line.startswith(f"#gpu {pid} "):
                continue
            note = dict(word.split("=", 1) for word in line.split()[2:])
            if note["kind"] in KINDS:
                what = note["name"] if note["kind"] == "kernel" else int(note["bytes"])
                self.work[note["kind"]].append(
                    Work(what, int(note["start_real"]) - origin, int(note["end_real"]) - origin))
        self.gaps = trace.rows("SELECT start_ns - 1000000, COALESCE(end_ns + 1000000, 1 << 62) FROM cupti_gap"
                               " WHERE reason NOT LIKE '%yet'")

    def may_miss(self, work):
        return any(start <= work.start <= end for start, end in self.gaps)


def seen_work(trace, kind):
    what = "(SELECT name FROM kernel WHERE kernel.id = v0)" if kind == "kernel" else "v0"
    rows = trace.rows(f"SELECT {what}, start_ns, end_ns FROM gpu_work WHERE kind = ?", KINDS[kind])
    untimed = [row for row in rows if row[1] is None]
    assert not untimed, f"{kind} without times: {[tuple(row) for row in untimed]}"
    return [Work(*row) for row in rows]


def check_work(trace, notes):
    """Each piece of work once, under its name or of its size, when and as long as the device did it."""
    for kind in KINDS:
        seen, said = seen_work(trace, kind), notes.work[kind]
        all_said = Counter(work.what for work in said)
        sure = Counter(work.what for work in said if not notes.may_miss(work))
        count = Counter(work.what for work in seen)
        assert not count - all_said and not sure - count, f"{kind}: more {count - all_said}, less {sure - count}"
        left = defaultdict(list)
        for work in said:
            left[work.what].append(work)
        for work in seen:
            twin = min(left[work.what], key=lambda other: abs(other.start - work.start))
            left[work.what].remove(twin)
            assert abs(work.start - twin.start) < SLACK, f"{kind} {work.what}: {work.start}, noted {twin.start}"
            assert abs(work.ns - twin.ns) <= 1 + twin.ns // 10000, f"{kind} {work.what}: {work.ns}, noted {twin.ns}"


def check_totals(trace, notes):
    """kernel_total counts every run, with a row of its own or without."""
    if notes.gaps:
        return
    assert trace.one("SELECT COALESCE(SUM(untimed), 0) FROM kernel_total") == 0
    seen = {name: (count, ns) for name, count, ns in trace.rows("SELECT name, count, total_ns FROM gpu_time")}
    said = defaultdict(lambda: [0, 0])
    for work in notes.work["kernel"]:
        said[work.what][0] += 1
        said[work.what][1] += work.ns
    assert {name: count for name, (count, _) in seen.items()} == {name: count for name, (count, _) in said.items()}
    for name, (count, ns) in said.items():
        assert abs(seen[name][1] - ns) <= count + ns // 10000, f"{name}: {seen[name]}, noted {count, ns}"


def record(torch, name, **more):
    """The workload's traces, each with what the device noted of its process."""
    how = run_how(name)
    more = dict(how.pop("more_env") or {}, **FULL, **more)
    outcome = torch.go(*argv(torch, name), more_env=more, **how)
    assert (outcome.status, outcome.out) == (0, WORKLOADS[name]["line"] + "\n"), repr(outcome)
    torch.assert_all_true()
    traces = [torch.trace(path) for path in torch.traces()]
    assert len(traces) == WORKLOADS[name].get("processes", 1)
    for trace in traces:
        assert trace.lost() == {}
    return [(trace, Notes(torch.log, trace)) for trace in traces]


@pytest.mark.parametrize("name", [later(name, name in LATER) for name in WORKLOADS])
def test_hooks_and_cupti(torch, name):
    recorded = record(torch, name)
    for trace, notes in recorded:
        check_work(trace, notes)
        check_totals(trace, notes)
        assert trace.one("SELECT COUNT(*) FROM gpu_work WHERE kind IN (1, 2, 3) AND call IS NULL") == 0
    assert sum(bool(notes.gaps) for _, notes in recorded) == GAPS.get(name, 0)


@pytest.mark.parametrize("name", [later("transformer", False), later("graphs", True)])
def test_more_kernels_than_rows(torch, name):
    """Beyond LAYOUTSPY_KERNEL_ROWS kernels are in the totals alone, all of them, and the trace says so."""
    (trace, notes), = record(torch, name, LAYOUTSPY_KERNEL_ROWS=ROWS)
    runs = len(notes.work["kernel"])
    assert runs > 3 * ROWS
    check_totals(trace, notes)
    assert trace.one("SELECT COUNT(*) FROM kernel_run") == ROWS
    assert trace.one("SELECT SUM(count) FROM gpu_count WHERE kind = 'kernel'") == runs
    (state, detail), = trace.rows("SELECT state, detail FROM coverage WHERE layer = 'kernels'")
    assert state == "partial" and f"{ROWS} of {runs} runs" in detail and "kernel_total" in detail, (state, detail)
