"""Another client of CUPTI in the program that is recorded: it gets what it gets without layoutspy, layoutspy's GPU
times stop while it works and go on when it rests."""

import contextlib
import re
import sqlite3
import time

import pytest

from harness import COMMAND, app, fault, wait_until

HERE = {"LAYOUTSPY_CUPTI": "full"}
ROUNDS = 25  # of cupti_other.c: copies, and sets, of each size

MODES = ["kept", "first", "unsubscribed", "again", "leaves", "finalizes", "callbacks"]


def rows(harness, sql):
    with contextlib.closing(sqlite3.connect(harness.out)) as db:
        return db.execute(sql).fetchall()


def gpu_copies(harness):
    """How many copies of each size have GPU times, and how many of these belong to a call."""
    return {size: (count, matched) for size, count, matched in rows(
        harness, "SELECT bytes, COUNT(*), SUM(call_id IS NOT NULL) FROM gpu_copy WHERE end_ns > start_ns GROUP BY bytes")}


def states(harness):
    return [state for state, in rows(harness, "SELECT state FROM gpu_state ORDER BY ts_ns, id")]


def coverage(harness, layer):
    return [(state, detail) for state, detail in
            rows(harness, f"SELECT state, COALESCE(detail, '') FROM coverage WHERE layer = '{layer}'")]


def check_sets_of_in_flight(harness):
    """All of the memsets that in_flight.c makes in the end; of what was in flight, that it is lost."""
    for api, first in ("cuMemsetD8Async", 1), ("cudaMemsetAsync", 1001):
        sets = rows(harness, f"SELECT bytes FROM gpu_set WHERE api = '{api}' AND call_id IS NOT NULL ORDER BY bytes")
        assert sets == [(size,) for size in range(first, first + 100)], api
    assert rows(harness, "SELECT COUNT(*) FROM api_call WHERE api LIKE '%Memset%' AND flags & 1") == [(0,)]
    assert rows(harness, "SELECT reason, count FROM lost_event") == [("cupti-calls", 1)]


def both(harness, mode, sessions=2, **settings):
    """The program without us and with us; what it prints must be the same."""
    command = [fault("cupti_other"), mode, str(sessions)]
    settings = {k: str(v) for k, v in settings.items()}
    plain = harness.run(command, harness.environment(preload=False, out=None, **settings))
    recorded = harness.record(command, more_env=dict(HERE, **settings))
    for outcome in plain, recorded:  # a forced flush may catch work that the device has just ended
        outcome.out = re.sub(r"[01] untimed", "0 untimed", outcome.out)
    return plain, recorded


@pytest.mark.parametrize("version", ["12.4", "13.0"])
@pytest.mark.parametrize("mode", MODES)
def test_another_client_gets_all_of_its_own(harness, mode, version):
    plain, recorded = both(harness, mode, STANDIN_CUPTI=version)
    assert recorded.same_as(plain)
    assert "of others, 0 unknown, 0 out" in recorded.out or mode == "callbacks"
    if mode != "callbacks":
        assert re.findall(r"(\d+) copies, (\d+) sets", recorded.out) == [(str(ROUNDS), str(ROUNDS))] * 2


@pytest.mark.parametrize("mode", MODES)
def test_gpu_times_before_and_after_it(harness, mode):
    both(harness, mode)
    copies = gpu_copies(harness)
    outside = [1001, 1002] if mode == "first" else [1000, 1001, 1002]
    for size in outside:
        assert copies.get(size) == (ROUNDS, ROUNDS), (size, copies)
    assert not [size for size in copies if size >= 2000], copies
    assert states(harness) == ([2, 1] * 2 if mode == "first" else [1, 2] * 2 + [1])


def test_the_gap_is_in_the_trace(harness):
    both(harness, "kept", 1)
    (start, end, reason), = rows(harness, "SELECT start_ns, end_ns, reason FROM cupti_gap WHERE reason NOT LIKE '%yet'")
    assert end > start and "another CUPTI client" in reason
    assert [state for state, detail in coverage(harness, "cupti") if "given way" in detail] == ["partial"]
    calls = rows(harness, f"SELECT COUNT(*) FROM all_copy WHERE start_ns BETWEEN {start} AND {end} AND gpu_ns IS NULL")
    assert calls[0][0] == ROUNDS


def test_a_client_that_came_first_is_waited_for(harness):
    both(harness, "first", 1)
    assert [state for state, detail in coverage(harness, "cupti") if "was first" in detail] == ["partial"]
    assert gpu_copies(harness) == {1001: (ROUNDS, ROUNDS)}


def test_a_tool_that_cannot_be_seen_keeps_cupti(harness):
    """As under Nsight Systems: the recording goes on without GPU times, and says whose it is."""
    outcome = harness.record([fault("cupti_other"), "none", "0"],
                             more_env=dict(HERE, STANDIN_CUPTI_TAKEN="Nsight Systems", STANDIN_CUPTI="13.0"))
    assert outcome.status == 0
    (state, detail), = coverage(harness, "cupti")
    assert state == "unavailable" and "Nsight Systems" in detail
    assert rows(harness, "SELECT COUNT(*) FROM all_copy WHERE gpu_ns IS NULL") == [(ROUNDS,)]


def test_several_subscribers_and_a_client_of_the_old_way(harness):
    plain, recorded = both(harness, "kept", STANDIN_CUPTI="13.3", STANDIN_CUPTI_MULTI=1)
    assert recorded.same_as(plain)
    assert gpu_copies(harness) == {size: (ROUNDS, ROUNDS) for size in (1000, 1001, 1002)}


def test_one_of_several_beside_a_client_of_the_new_way(harness):
    plain, recorded = both(harness, "beside", STANDIN_CUPTI="13.3", STANDIN_CUPTI_MULTI=1)
    assert recorded.same_as(plain)
    assert gpu_copies(harness) == {size: (ROUNDS, ROUNDS) for size in (1000, 1001, 1002)}
    assert states(harness) == [1, 2, 1]  # the first subscriber decides for all: once aside, then beside it


def test_a_refused_registration_leaves_the_former(harness):
    """The client's second one: that of its first call is in force without us, and with us."""
    command = [fault("cupti_other"), "refused", "1"]
    refuse = "cuptiActivityRegisterCallbacks:{}:7"  # the recording's own comes before the client's
    plain = harness.run(command, harness.environment(preload=False, out=None, STANDIN_FAIL=refuse.format(2)))
    recorded = harness.record(command, more_env=dict(HERE, STANDIN_FAIL=refuse.format(3)))
    for outcome in plain, recorded:
        outcome.out = re.sub(r"[01] untimed", "0 untimed", outcome.out)
    assert recorded.same_as(plain), (recorded, plain)
    assert re.search(r"Callbacks\(.*: 7$", plain.out, re.M)
    assert f"{ROUNDS} copies, {ROUNDS} sets" in plain.out and "0 of others, 0 unknown, 0 out" in plain.out
    assert gpu_copies(harness) == {size: (ROUNDS, ROUNDS) for size in (1000, 1001)}


def test_a_slow_hand_over_is_waited_for_again(harness):
    """The first takes longer than anybody waits: what it brings comes late, what later ones bring is not given up."""
    plain, recorded = both(harness, "kept", STANDIN_CUPTI_FAULT="slow-flush")
    assert (recorded.status, recorded.err) == (plain.status, plain.err)
    copies = gpu_copies(harness)  # 1001: made while it lasts, or after it
    assert {size: copies.get(size) for size in (1000, 1002)} == {size: (ROUNDS, ROUNDS) for size in (1000, 1002)}
    assert not [detail for _, detail in coverage(harness, "cupti") if "did not hand over" in detail]


def test_a_call_in_flight_as_it_steps_aside(harness):
    """One that CUPTI alone sees: its end is never told. The thread's later calls are recorded, and around none."""
    process = harness.start([app("in_flight"), "other"], harness.environment(**HERE, STANDIN_DELAY_US=1500000), stdin=-1)
    assert {process.stdout.readline(), process.stdout.readline()} == {b"aside\n", b"over\n"}
    assert wait_until(lambda: harness.out.exists() and states(harness) == [1, 2, 1], 30), states(harness)
    assert process.communicate(b"\n")[1] == b"" and process.returncode == 0
    harness.settle()
    check_sets_of_in_flight(harness)


def test_a_call_in_flight_as_recording_stops(harness):
    """One that CUPTI alone sees ends while nothing is recorded: its thread's calls are recorded afterwards."""
    env = harness.environment(LAYOUTSPY_CUPTI="full", STANDIN_DELAY_US=4000000)
    process = harness.start([app("in_flight"), "none"], env, stdin=-1)
    control = [COMMAND, "ctl", str(process.pid)]
    assert process.stdout.readline() == b"aside\n"
    assert harness.run([*control, "stop"], standin=False).status == 0
    assert process.stdout.readline() == b"over\n"
    assert harness.run([*control, "start"], standin=False).status == 0
    assert process.communicate(b"\n")[1] == b"" and process.returncode == 0
    harness.settle()
    check_sets_of_in_flight(harness)


def test_switched_off_it_is_left_alone(harness):
    plain, recorded = both(harness, "kept", LAYOUTSPY_CUPTI="off")
    assert recorded.same_as(plain)
    assert gpu_copies(harness) == {}


@pytest.mark.parametrize("fault_name", ["hang-flush", "garbage", "invalid", "shuffle", "drop", "late", "unload"])
def test_the_program_ends_in_time_with_a_bad_cupti(harness, fault_name):
    started = time.monotonic()
    command = [fault("cupti_other"), "none", "0"]
    plain = harness.run(command, harness.environment(preload=False, out=None))
    plain_s = time.monotonic() - started
    started = time.monotonic()
    outcome = harness.run(command, harness.environment(**HERE, STANDIN_CUPTI_FAULT=fault_name))
    # 2 s are promised. A loaded machine takes its time: what is measured is that nothing waits without end.
    assert time.monotonic() - started < plain_s + 2 + 10
    assert outcome.same_as(plain)
    harness.settle()
    assert rows(harness, "SELECT COUNT(*) FROM copy") == [(ROUNDS,)]


@pytest.mark.parametrize("function", ["cuptiSubscribe", "cuptiActivityRegisterCallbacks", "cuptiActivityEnable",
                                      "cuptiEnableCallback", "cuptiActivityFlushAll", "cuptiActivityDisable",
                                      "cuptiUnsubscribe", "cuptiActivityGetNextRecord", "cuptiGetTimestamp",
                                      "cuptiGetVersion", "cuptiGetCallbackName"])
def test_each_call_may_fail(harness, function):
    outcome = harness.record([fault("cupti_other"), "none", "0"],
                             more_env=dict(HERE, STANDIN_FAIL=f"{function}:*:999"))
    assert (outcome.status, outcome.err) == (0, "")
    assert rows(harness, "SELECT COUNT(*) FROM copy") == [(ROUNDS,)]


def test_what_cupti_holds_is_soon_in_the_trace(harness):
    """A kill two seconds after the last call loses none of its GPU times."""
    process = harness.start([fault("cupti_other"), "waits", "1"], harness.environment(**HERE))
    process.stdout.readline()
    time.sleep(2)
    process.kill()
    process.communicate()
    harness.settle()
    assert gpu_copies(harness).get(1000) == (ROUNDS, ROUNDS)


def test_info_tells_the_cost_of_recording(harness):
    both(harness, "none", 0)
    text = harness.run([COMMAND, "info", harness.out], standin=False).out
    assert re.search(r"^cost +(about|unknown)", text, re.M), text
