"""`oom` is a problem, unless the program went on working: traces made by hand whose course is known."""

import json

import pytest

from cli import OK, layoutspy
from synthetic import Trace

MIB = 1 << 20
SECOND = 1_000_000_000
MS = 1_000_000
DEATH = 10 * SECOND  # when memory runs out


class Course:
    """A trace in the order of time: ten steps of a second, and then what the test says."""

    def __init__(self, trace):
        self.trace, self.now, self.ooms = trace, 0, 0
        self.segment = trace.segment(900 * MIB, 1)
        trace.memory(100 * MIB, 1024 * MIB)

    def work(self, launches, over, blocks=1, step=False):
        begin = self.now
        for i in range(launches):
            self.trace.kernel(begin + (i + 1) * over // (launches + 1))
        for i in range(blocks):
            self.trace.block(self.segment, MIB, begin + 10 + i, begin + 20 + i)
        self.now += over
        if step:
            self.trace.step(begin, self.now)

    def steps(self, count, **how):
        for _ in range(count):
            self.work(4, SECOND, step=True, **how)

    def oom(self, site="train.py:6 step", device=0):
        self.now += MS
        self.trace.oom(400 * MIB, self.now, site=site, device=device, allocated=800 * MIB, reserved=900 * MIB,
                       asked=400 * MIB, attempts=2, pending=0, cached=100 * MIB, largest_hole=50 * MIB)
        self.now += MS


def died(c):
    c.oom()


def stepped(c):
    c.oom()
    c.steps(5)


def two_steps(c):
    c.oom()
    c.steps(2)


def retried(c):
    """Each try gets somewhere, and fails at another line."""
    for line in range(3):
        c.work(20, SECOND // 10)
        c.oom(f"train.py:{line} step")


def retried_and_stepped(c):
    retried(c)
    c.steps(4)


def stepped_and_died(c):
    c.oom("train.py:1 step")
    c.steps(4)
    c.oom("train.py:2 step")


def launched(c):
    """No step that anybody knows of: an evaluation, say."""
    c.oom()
    c.work(40, 2 * SECOND)


def handler(c):
    """Saves what there is."""
    c.oom()
    c.work(5, 5 * SECOND)


def moment(c):
    c.oom()
    c.work(40, MS)


def without_memory(c):
    """The device gave nothing any more."""
    c.oom()
    c.steps(5, blocks=0)


def another_device(c):
    c.oom(device=1)
    c.steps(5)


@pytest.mark.parametrize("course, severities", [
    (died, ["problem"]), (stepped, ["warning"]), (two_steps, ["problem"]), (retried, ["problem"] * 3),
    (retried_and_stepped, ["warning"] * 3), (stepped_and_died, ["warning", "problem"]), (launched, ["warning"]),
    (handler, ["problem"]), (moment, ["problem"]), (without_memory, ["problem"]), (another_device, ["problem"])])
def test_severity(tmp_path, course, severities):
    path = tmp_path / "t.db"
    with Trace(path, run_ns=100 * SECOND, app="python train.py") as t:
        c = Course(t)
        c.steps(10)
        course(c)
    result = layoutspy("report", "--json", path)
    assert result.returncode == OK, result.stderr
    ooms = sorted((f for f in json.loads(result.stdout)["findings"] if f["kind"] == "oom"), key=lambda f: f["site"])
    assert [f["severity"] for f in ooms] == severities
    for f in ooms:
        assert ("went on" in f["title"]) == ("went_on" in f["evidence"]) == (f["severity"] == "warning")


def test_how_it_went_on_is_said(tmp_path):
    for course, words in (stepped, "went on for 5 steps"), (launched, "went on (40 launches in 1.95 s)"):
        path = tmp_path / f"{course.__name__}.db"
        with Trace(path, run_ns=100 * SECOND) as t:
            c = Course(t)
            c.steps(10)
            course(c)
        assert words in " ".join(layoutspy("report", path).stdout.split())
        assert words in " ".join(layoutspy("oom", path).stdout.split())
