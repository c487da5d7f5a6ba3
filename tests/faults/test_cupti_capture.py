"""Stream captures, with CUPTI: however one ends, and whatever is asked of layoutspy meanwhile, no call of its own
comes in the middle of one that could wait, and nothing is off when it is over."""

import os
import signal
import time

import pytest

from harness import COMMAND, fault
from truth import Trace
from truth_log import Call

HERE = {"LAYOUTSPY_CUPTI": "full"}
RELAXED, COPIES = 2, 10
NESTED, CAPTURING = 1, 2
ALWAYS = {"cuptiGetTimestamp", "cuptiActivityGetNextRecord", "cuptiActivityGetNumDroppedRecords"}  # reading a buffer


class Program:
    """captures.c: does what it is told by lines on its input."""

    def __init__(self, harness, **settings):
        self.harness = harness
        self.process = harness.start([fault("captures")], harness.environment(**dict(HERE, **settings)), stdin=-1)

    def send(self, line):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline().decode().split()

    def do(self, line):
        self.send(line)
        assert self.answer() == [line.split()[0], "0"]

    def ctl(self, action):
        return self.harness.start([COMMAND, "ctl", str(self.process.pid), action], standin=False)

    def end(self, kill=False):
        if kill:
            self.process.kill()
        self.process.stdin.close()
        assert self.process.wait(30) == (-signal.SIGKILL if kill else 0)
        self.harness.settle()
        return Trace(self.harness.out)

    def calls(self):
        """Names of the calls of CUPTI's that layoutspy has made in the middle of a capture so far."""
        lines = self.harness.log.read_text().splitlines()
        calls = [Call(line) for line in lines if "\tcupti" in line and "\tcapturing=1" in line]
        return [call.name for call in calls if call.by == "layoutspy" and call.name not in ALWAYS]


@pytest.fixture
def start(harness):
    programs = []

    def made(**settings):
        programs.append(Program(harness, **settings))
        return programs[-1]
    yield made
    for program in programs:
        if program.process.poll() is None:
            os.killpg(program.process.pid, signal.SIGKILL)
        for pipe in (program.process.stdin, program.process.stdout, program.process.stderr):
            pipe.close()
        program.process.wait()


def timed(trace, size):
    return trace.one("SELECT COUNT(*) FROM gpu_copy WHERE bytes = ?", size)


def recorded(trace, size):
    return trace.one("SELECT COUNT(*) FROM copy WHERE bytes = ?", size)


def flagged_since(trace, flag, size):
    """Calls with this flag, after the first copy of that size; the runtime's own inner ones are not counted."""
    return trace.one("SELECT COUNT(*) FROM call WHERE flags & ? AND start_ns > (SELECT MIN(start_ns) FROM copy WHERE "
                     "bytes = ?)", flag, size)


@pytest.mark.parametrize("how", ["destroy", "reset", "thread"])
def test_a_capture_that_ends_otherwise(start, how):
    """What CUPTI holds is handed over again, host memory is asked about, and calls say nothing of a capture."""
    program = start()
    program.do("copies 1000")
    if how != "thread":
        program.do(f"begin {RELAXED}")
    program.do(how)
    program.do("copies 2000")
    time.sleep(2.3)
    trace = program.end(kill=True)
    assert timed(trace, 2000) == COPIES
    assert trace.one("SELECT src_kind FROM all_copy WHERE bytes = 2001") == "pageable"
    assert flagged_since(trace, CAPTURING, 2000) == 0


@pytest.mark.parametrize("action", ["flush", "stop"])
def test_a_request_waits_for_the_capture(start, action):
    program = start()
    program.do(f"begin {RELAXED}")
    program.do("copies 1000")
    asked = program.ctl(action)
    time.sleep(1.5)
    assert asked.poll() is None
    program.do("copies 2000")
    program.do("end")
    assert asked.wait(10) == 0, asked.communicate()
    asked.communicate()
    program.do("copies 3000")
    assert program.calls() == []
    trace = program.end()
    assert (recorded(trace, 1000), recorded(trace, 2000)) == (COPIES, COPIES)
    assert recorded(trace, 3000) == (0 if action == "stop" else COPIES)
    assert (timed(trace, 1000), timed(trace, 2000)) == (COPIES, COPIES)


def test_without_cupti_too(start):
    """A program that is asked by calls alone: the one that ends the capture answers."""
    program = start(LAYOUTSPY_CUPTI="off")
    program.do(f"begin {RELAXED}")
    asked = program.ctl("stop")
    time.sleep(0.5)
    program.do("copies 1000")
    assert asked.poll() is None
    program.do("end")
    assert asked.wait(10) == 0, asked.communicate()
    asked.communicate()
    program.do("copies 2000")
    trace = program.end()
    assert (recorded(trace, 1000), recorded(trace, 2000)) == (COPIES, 0)


def test_a_capture_without_an_end(start):
    """After ten seconds nothing waits for it any more."""
    program = start()
    program.do(f"begin {RELAXED}")
    program.do("copies 1000")
    asked = program.ctl("stop")
    assert asked.wait(10) == 3
    assert b"captur" in asked.communicate()[1]
    time.sleep(6)
    program.do("copies 2000")
    trace = program.end(kill=True)
    assert (recorded(trace, 2000), timed(trace, 1000)) == (0, COPIES)


def test_another_client_in_a_capture(start):
    """It is given way to at once; when it rests we wait for the capture's end."""
    program = start()
    program.do("copies 1000")
    program.do(f"begin {RELAXED}")
    program.do("client")
    left = program.calls()
    assert "cuptiUnsubscribe" in left
    time.sleep(1)
    program.do("copies 2000")
    assert program.calls() == left
    program.do("end")
    time.sleep(0.7)
    program.do("copies 3000")
    trace = program.end()
    assert [state for state, in trace.rows("SELECT state FROM gpu_state ORDER BY ts_ns, id")] == [1, 2, 1]
    assert [timed(trace, size) for size in (1000, 2000, 3000)] == [COPIES, 0, COPIES]


def test_a_call_that_never_ends_for_us(start):
    """A call that only CUPTI sees lasts over a stop and a start: later ones are not inside of it."""
    program = start(STANDIN_DELAY_US=2500000)
    program.do("copies 1000")
    program.send("pass")
    time.sleep(0.5)
    for action in "stop", "start":
        asked = program.ctl(action)
        assert asked.wait(10) == 0
        asked.communicate()
    assert program.answer() == ["pass", "0"]
    program.do("copies 2000")
    trace = program.end()
    assert trace.lost().get("cupti-calls") == 1
    assert (recorded(trace, 2000), timed(trace, 2000)) == (COPIES, COPIES)
    assert flagged_since(trace, NESTED, 1001) == 0
