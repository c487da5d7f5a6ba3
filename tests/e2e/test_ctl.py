"""`layoutspy ctl`: a running program's recording stopped, going on, and handing over."""

import contextlib
import os
import re
import signal
import sqlite3
import time

import pytest

from harness import COMMAND, fault

MODES = {"hooks": {"LAYOUTSPY_CUPTI": "off"}, "cupti": {"LAYOUTSPY_CUPTI": "full"},
         "cupti alone": {"LAYOUTSPY_CUPTI": "full", "LAYOUTSPY_HOOKS": "off"}}


class Program:
    """ctl_target.c: makes copies of the size that it is told by lines on its input."""

    def __init__(self, harness, **settings):
        self.harness = harness
        self.process = harness.start([fault("ctl_target")], harness.environment(**settings), stdin=-1)

    def copies(self, size):
        self.process.stdin.write(f"{size}\n".encode())
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{size}\n".encode()

    def step(self):
        self.copies("step")

    def ctl(self, action, status=0):
        outcome = self.harness.run([COMMAND, "ctl", str(self.process.pid), action], standin=False)
        assert outcome.status == status, outcome
        return outcome

    def ctl_beside(self, action):
        """The same while the program goes on making calls, of size 1."""
        command = self.harness.start([COMMAND, "ctl", str(self.process.pid), action], standin=False)
        while command.poll() is None:
            self.copies(1)
            time.sleep(0.01)
        assert command.returncode == 0, command.communicate()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        self.harness.settle()


@contextlib.contextmanager
def running(harness, mode, **settings):
    made = Program(harness, **MODES[mode], **settings)
    made.mode = mode
    yield made
    if made.process.poll() is None:
        os.killpg(made.process.pid, signal.SIGKILL)
    for pipe in (made.process.stdin, made.process.stdout, made.process.stderr):
        pipe.close()
    made.process.wait()


@pytest.fixture(params=list(MODES))
def program(harness, request):
    with running(harness, request.param) as made:
        yield made


@pytest.fixture(params=list(MODES))
def measured(harness, request):
    """Every second step is left out, from the tenth on."""
    with running(harness, request.param, LAYOUTSPY_MEASURE="2") as made:
        yield made


def rows(harness, sql):
    with contextlib.closing(sqlite3.connect(harness.out)) as db:
        return db.execute(sql).fetchall()


def test_stop_and_start(harness, program):
    program.copies(1000)
    program.ctl_beside("stop")
    program.copies(2000)
    program.ctl_beside("start")
    program.copies(3000)
    program.end()
    sizes = dict(rows(harness, "SELECT bytes, COUNT(*) FROM copy WHERE bytes <> 1 GROUP BY bytes"))
    assert sizes == {1000: 10, 3000: 10}
    (detail,), = rows(harness, "SELECT detail FROM coverage WHERE layer = 'recording'")
    assert re.fullmatch(r"stopped by `layoutspy ctl` at \d+\.\d+ s, until \d+\.\d+ s: what happened meanwhile is missing",
                        detail)
    if program.mode != "hooks":
        assert [state for state, in rows(harness, "SELECT state FROM gpu_state ORDER BY ts_ns, id")] == [1, 2, 1]
        timed = dict(rows(harness, "SELECT bytes, COUNT(*) FROM gpu_copy WHERE bytes <> 1 AND call_id IS NOT NULL GROUP BY bytes"))
        assert timed == {1000: 10, 3000: 10}


def test_a_stop_is_told_once_while_the_program_runs(harness, program):
    """First without its end, then with it: the latter takes the former's place at once."""
    program.copies(1000)
    program.ctl_beside("stop")
    program.ctl_beside("start")
    program.copies(2000)
    told = []
    for _ in range(200):
        with contextlib.suppress(sqlite3.OperationalError):  # the collector has not begun yet
            told = [detail for detail, in rows(harness, "SELECT detail FROM coverage WHERE layer = 'recording'")]
        if any("until" in detail for detail in told):
            break
        time.sleep(0.05)
    assert len(told) == 1 and "until" in told[0], told
    program.end()


def test_without_a_call(harness, program):
    """CUPTI's thread answers; hooks alone need a call."""
    program.copies(1000)
    outcome = program.ctl("stop", 3 if program.mode == "hooks" else 0)
    assert ("made no CUDA call" in outcome.err) == (program.mode == "hooks")
    program.copies(2000)
    if program.mode == "hooks":
        program.copies(3000)  # the request was dealt with at the end of a call of 2000
    program.end()
    sizes = [size for size, in rows(harness, "SELECT DISTINCT bytes FROM copy")]
    assert 3000 not in sizes and (program.mode == "hooks" or 2000 not in sizes)


def test_a_start_is_answered_soon(harness):
    """Without a call of the program's: the thread that is asked looks more often than its period of one second."""
    program = Program(harness, **MODES["cupti alone"])
    program.copies(1000)
    took = []
    for _ in range(4):
        program.ctl("stop")
        stopped = time.monotonic()
        program.ctl("start")
        took.append(time.monotonic() - stopped)
    program.end()
    for pipe in (program.process.stdout, program.process.stderr):
        pipe.close()
    assert min(took) < 0.8, took


def test_flush(harness, program):
    program.copies(1000)
    program.ctl_beside("flush")
    if program.mode != "hooks":
        assert rows(harness, "SELECT COUNT(*) FROM gpu_copy WHERE bytes = 1000") == [(10,)]
    program.end()


def test_stop_in_a_step_that_is_left_out(harness, measured):
    """It is dealt with when that step is over, which does not switch recording on again."""
    for number in range(1, 10):
        measured.step()
        measured.copies(1000 + number)
    measured.step()  # the tenth is left out
    measured.copies(1010)
    command = harness.start([COMMAND, "ctl", str(measured.process.pid), "stop"], standin=False)
    measured.copies(1010)
    time.sleep(1.2)  # CUPTI's thread looks once a second
    measured.copies(1010)
    assert command.poll() is None  # it waits for the answer
    measured.step()
    while command.poll() is None:
        measured.copies(1)
        time.sleep(0.01)
    assert command.returncode == 0, command.communicate()
    measured.copies(2000)
    measured.step()
    measured.copies(2000)
    measured.ctl_beside("start")
    measured.copies(3000)
    measured.end()
    sizes = dict(rows(harness, "SELECT bytes, COUNT(*) FROM copy WHERE bytes > 1 GROUP BY bytes"))
    assert sizes == dict.fromkeys([*range(1001, 1010), 3000], 10)
    details = [detail for detail, in rows(harness, "SELECT detail FROM coverage WHERE layer = 'recording'")]
    assert len(details) == 2 and sum("stopped by `layoutspy ctl`" in detail for detail in details) == 1, details


def test_by_the_name_of_the_trace(harness, program):
    program.copies(1000)
    command = harness.start([COMMAND, "ctl", str(harness.out), "stop"], standin=False)
    while command.poll() is None:
        program.copies(1)
    out, err = command.communicate()
    assert command.returncode == 0 and b"recording is stopped" in out, err
    program.end()
    outcome = harness.run([COMMAND, "ctl", str(harness.out), "start"], standin=False)
    assert outcome.status == 3 and "is over" in outcome.err


@pytest.mark.parametrize("words, status", [(["1", "pause"], 2), (["1"], 2), ([], 2), (["4194999", "stop"], 3),
                                           (["/nowhere/x.db", "stop"], 3)])
def test_wrong_words(harness, words, status):
    outcome = harness.run([COMMAND, "ctl", *words], standin=False)
    assert outcome.status == status and outcome.err.count("\n") == 1 and not outcome.out


def test_a_number_that_is_no_process(harness):
    """Its lower bits are not taken for one's."""
    outcome = harness.run([COMMAND, "ctl", str(2**32 + os.getpid()), "stop"], standin=False)
    assert outcome.status == 3 and "there is no such process" in outcome.err
