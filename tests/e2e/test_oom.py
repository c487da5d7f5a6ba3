"""Programs that run out of device memory: what failed, what they did about it, and how it ended, as
the simulated device's log has it; in the trace at once, and whoever dies."""

import os
import signal
import sqlite3
import subprocess
import time

import pytest

from harness import COMMAND, app, site_matches, wait_until
from truth import parse_log

MIB = 1 << 20
CAPACITY = "64M"
ALLOCATES = {"cudaMalloc": "size", "cudaMallocAsync": "size"}
FAILED, GIVEN_BACK, WAITED, ASKED, SUCCEEDED, REPORT = range(1, 7)

# Of each way: requested, attempts, recovered of its ooms, and the steps by name: those are compared
# with the log.
WAYS = {
    "retry": [(40, 2, 1, "cudaMalloc cudaMemGetInfo cudaDeviceSynchronize cudaFree cudaFree cudaMalloc cudaFree cudaMalloc")],
    "halve": [(64, 2, 0, "cudaMalloc cudaMalloc")],
    "go_on": [(24, 1, 0, "cudaMalloc")],
    "offload": [(20, 1, 1, "cudaMalloc cudaFree cudaMalloc")],
    "pool": [(32, 1, 1, "cudaMallocAsync cudaFreeAsync cudaStreamSynchronize cudaMallocAsync")],
    "threads": 4 * [(33, 2, 0, "cudaMalloc cudaFree cudaMalloc")],
    "die": [(40, 1, 0, "cudaMalloc")],
}


def step_of(call):
    """Kind and bytes of a call of the log, as `oom_call` has them."""
    if call.name in ALLOCATES:
        return (FAILED if call.status else SUCCEEDED), call.number("size")
    if call.name.startswith("cudaFree"):
        return GIVEN_BACK, call.number("size")
    if call.name == "cudaMemGetInfo":
        return ASKED, call.number("free")
    return WAITED, None


def live_before(calls, failure):
    """Bytes of device memory that were live when that call failed."""
    size = 0
    for call in calls:
        if call is failure:
            return size
        if call.status == 0 and call.name in ALLOCATES:
            size += call.number("size")
        elif call.status == 0 and call.name.startswith("cudaFree") and call.number("ptr"):
            size -= call.number("size")
    raise AssertionError("not in the log")


def true_steps(process, tid, names):
    """The thread's calls from its first failure on, as far as `names` go; those between are left out."""
    calls = process.by_thread()[tid]
    first = next(i for i, call in enumerate(calls) if call.status == 2 and call.name in ALLOCATES)
    steps = []
    for call in calls[first:]:
        if len(steps) < len(names) and call.name == names[len(steps)]:
            steps.append(call)
    assert [call.name for call in steps] == names, calls[first:]
    return steps


def check_row(trace, process, event, want):
    requested, attempts, recovered, names = want
    tid = trace.one("SELECT tid FROM thread WHERE id = ?", event["thread"])
    truth = true_steps(process, tid, names.split())
    steps = trace.rows("SELECT o.kind, o.bytes, duration_ns, api FROM oom_call AS o JOIN api_call USING (id) "
                       "WHERE oom = ? ORDER BY id", event["id"])
    assert [(s["kind"], s["bytes"]) for s in steps] == [step_of(call) for call in truth]
    assert [s["api"] for s in steps] == [call.name for call in truth]
    assert (event["requested"], event["asked"], event["attempts"], event["recovered"]) == \
        (requested * MIB, requested * MIB, attempts, recovered)
    flushes = [s for s in steps if s["kind"] == GIVEN_BACK]
    assert event["flushed_calls"] == len(flushes)
    assert event["flushed_bytes"] == sum(s["bytes"] for s in flushes)
    assert event["flush_ns"] == sum(s["duration_ns"] for s in flushes)
    assert event["waited_ns"] == sum(s["duration_ns"] for s in steps if s["kind"] == WAITED)
    told = [call for call in truth if call.name == "cudaMemGetInfo"]
    assert event["device_free"] == (told[-1].number("free") if told else None)
    assert (event["source"], event["reserved"], event["pending"], event["owner"]) == (2, None, None, None)
    return truth[0]


@pytest.mark.parametrize("way", WAYS)
def test_ways(harness, way):
    outcome = harness.record([app("oom_retry"), way], memory=CAPACITY)
    assert outcome.status == (-signal.SIGKILL if way == "die" else 0), repr(outcome)
    if way == "die":  # nobody was there any more to finish it
        assert harness.layoutspy("info", harness.out).status == 0
    harness.assert_true()
    trace, process = harness.trace(), parse_log(harness.log)[0]
    events = trace.rows("SELECT * FROM oom ORDER BY id")
    assert len(events) == len(WAYS[way])
    for event, want in zip(events, WAYS[way]):
        failure = check_row(trace, process, event, want)
        if way != "threads":  # there the log's order need not be that of the device
            assert event["allocated"] == live_before(process.calls, failure)
    view = trace.rows("SELECT * FROM oom_event ORDER BY call_id")
    assert [row["call_id"] for row in view] == [event["id"] for event in events]
    if way != "pool":
        assert all(site_matches(row["site"], "oom_retry.c", "oom asked", "ask") for row in view)
    assert {row["source"] for row in view} == {"driver"}


def test_other_kinds(harness):
    """At least what was asked for, of memory that the runtime lays out itself."""
    assert harness.record([app("oom_retry"), "kinds"], memory=CAPACITY).status == 0
    assert [tuple(row) for row in harness.trace().rows("SELECT requested, recovered FROM oom ORDER BY id")] == \
        [(100 * MIB, 0), (256 * MIB, 0)]


def test_no_host_memory_is_no_oom_of_a_device(harness):
    harness.record([app("double_buffer")], more_env={"STANDIN_FAIL": "cudaHostAlloc:1:2"})
    trace = harness.trace()
    assert trace.one("SELECT COUNT(*) FROM api_call WHERE api = 'cudaHostAlloc' AND status = 2") == 1
    assert trace.one("SELECT COUNT(*) FROM oom") == 0


def test_none_where_none_was(harness):
    for name in ("double_buffer", "thread_streams", "async_pools", "mapped"):
        harness.record([app(name)], out=f"{name}.db")
        trace = harness.trace(harness.folder / f"{name}.db")
        assert trace.one("SELECT COUNT(*) FROM oom") == 0, name
        assert trace.one("SELECT COUNT(*) FROM moment WHERE kind IN (1, 4)") == 2, name


def test_moments(harness):
    """Of a program without a framework: the most that was live, at each oom, at the end."""
    assert harness.record([app("oom_retry"), "retry"], memory=CAPACITY).status == 0
    trace = harness.trace()
    moments = trace.rows("SELECT kind, ts_ns, allocated, reserved, oom FROM moment ORDER BY id")
    assert [(m["kind"], m["allocated"]) for m in moments] == [(1, 64 * MIB), (3, 48 * MIB), (4, 24 * MIB)]
    assert moments[1]["oom"] == trace.one("SELECT id FROM oom") and moments[1]["reserved"] is None
    assert moments[1]["ts_ns"] == trace.one("SELECT ts_ns FROM oom")
    assert trace.one("SELECT COUNT(*) FROM segment_state") == 0


# ---- while it runs ---------------------------------------------------------------------------


def rows_now(path):
    """What a reader of the trace sees; None while there is no trace yet."""
    try:
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return db.execute("SELECT recovered, attempts, flushed_calls, source FROM oom ORDER BY id").fetchall()
        finally:
            db.close()
    except sqlite3.Error:
        return None


def stepwise(harness, at_each):
    """Runs it; `at_each` is called after each part, with its word. Returns its rows."""
    process = harness.start([app("oom_retry"), "stepwise"], memory=CAPACITY, stdin=subprocess.PIPE)
    for word in ("failed", "dropped", "got"):
        assert process.stdout.readline().decode() == word + "\n"
        at_each(word)
        process.stdin.write(b"\n")
        process.stdin.flush()
    assert process.communicate()[0] == b"" and process.returncode == 0
    if not harness.collector():  # a command takes in what is left
        assert harness.layoutspy("info", harness.out).status == 0
    harness.settle()
    trace = harness.trace()
    rows = trace.rows("SELECT id, device, requested, asked, allocated, reserved, recovered, attempts, first_call, "
                      "last_call, flushed_calls, flushed_bytes, source, owner FROM oom ORDER BY id")
    steps = trace.rows("SELECT * FROM oom_call ORDER BY id")
    return [tuple(row) for row in rows], [tuple(row) for row in steps]


def test_seen_while_it_runs(harness):
    """The row is there from the failure on, and changes with what the program does."""
    want = {"failed": [(0, 1, 0, 2)], "dropped": [(0, 1, 3, 2)], "got": [(1, 1, 3, 2)]}

    def look(word):
        assert wait_until(lambda: rows_now(harness.out) == want[word], seconds=5), (word, rows_now(harness.out))

    rows, steps = stepwise(harness, look)
    assert [(row[2], row[6]) for row in rows] == [(40 * MIB, 1), (56 * MIB, 0)]
    assert [step[2] for step in steps] == [1, 2, 2, 2, 5, 1]


def test_collector_killed_at_each_part(harness, tmp_path):
    """Whoever takes it up goes on with the same episode."""
    quiet = stepwise(harness, lambda word: None)
    os.rename(harness.out, tmp_path / "quiet")

    def kill(word):
        collector = harness.collector()
        if collector:
            os.kill(collector, signal.SIGKILL)
            assert wait_until(lambda: harness.collector() is None)
        assert harness.layoutspy("sql", harness.out, "SELECT COUNT(*) FROM oom").status == 0  # takes it up

    assert stepwise(harness, kill) == quiet


def latencies(harness, failures, pause_ms, workers):
    """Seconds from each failure to its row, as a second process sees it."""
    process = harness.start([app("oom_times"), failures, pause_ms, workers], log=False, memory=CAPACITY)
    seen, db = [], None
    end = time.monotonic() + 60
    while len(seen) < failures and time.monotonic() < end:
        try:
            db = db or sqlite3.connect(f"file:{harness.out}?mode=ro", uri=True)
            count = db.execute("SELECT COUNT(*) FROM oom").fetchone()[0]
        except sqlite3.Error:  # there is none yet
            db, count = None, 0
        seen += [time.monotonic()] * (count - len(seen))
        time.sleep(0.001)
    out = process.communicate(timeout=60)[0]
    db.close()
    failed = [int(line) / 1e9 for line in out.split()]
    assert process.returncode == 0 and len(failed) == len(seen) == failures
    return sorted(after - before for after, before in zip(seen, failed))


def test_committed_at_once(harness):
    """Nobody has to ask, and nothing else has to come; tests/bench/oom_latency.py has how soon."""
    assert latencies(harness, failures=11, pause_ms=60, workers=0)[-1] < 2


def test_committed_at_once_after_a_long_pause(harness):
    assert latencies(harness, failures=2, pause_ms=9000, workers=0)[-1] < 2
