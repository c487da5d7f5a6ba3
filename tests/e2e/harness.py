"""Runs programs on the simulated device, with layoutspy and without, and waits for their traces."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from truth import Trace, compare, compare_all, parse_log

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LAYOUTSPY_BUILD") or ROOT / "build").resolve()
LIBRARY = BUILD / "preload" / "liblayoutspy.so"
COMMAND = BUILD / "analyzer" / "layoutspy"
SANITIZED = os.environ.get("LAYOUTSPY_ASAN_BUILD")  # a sanitized build, where there is one
COMMANDS = {"plain": COMMAND} | ({"sanitized": Path(SANITIZED) / "analyzer" / "layoutspy"} if SANITIZED else {})
ON_STANDIN = ROOT / "tests" / "standin" / "on-standin"
APPS = BUILD / "tests" / "apps"
FAULTS = BUILD / "tests" / "faults"
PLUGIN = APPS / "libplugin.so"
# The soname of the simulated runtime that was built.
CUDART = next((n for n in ("libcudart.so.12", "libcudart.so.13") if (BUILD / "tests" / "standin" / n).exists()), None)

TIMEOUT = 120  # s, of any one program: far more than any needs


def app(name):
    return str(APPS / name)


def fault(name):
    return str(FAULTS / name)


def source_line(source, marker):
    """The line of a marker comment (of C or Python) in a program's source: tests hold no line numbers."""
    folders = ("apps", "faults", "pytorch", "cases")
    path = next(p for p in (ROOT / "tests" / folder / source for folder in folders) if p.exists())
    marked = re.compile(rf"SITE: {re.escape(marker)}( \*/|$)")
    lines = [n for n, line in enumerate(path.read_text().splitlines(), 1) if marked.search(line)]
    assert len(lines) == 1, f"{source} has {len(lines)} lines marked {marker}"
    return lines[0]


def site_matches(site, source, marker, function):
    """Whether a site is `PATH:LINE FUNCTION` of the marked line."""
    return bool(re.fullmatch(rf"(.*/)?{re.escape(Path(source).name)}:{source_line(source, marker)} {function}", site))


class Outcome:
    def __init__(self, status, out, err):
        self.status, self.out, self.err = status, out, err

    def same_as(self, other):
        return (self.status, self.out, self.err) == (other.status, other.out, other.err)

    def __repr__(self):
        return f"status {self.status}, stdout {self.out!r}, stderr {self.err!r}"


class Harness:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.program = COMMAND  # the `layoutspy` that the test runs, one of COMMANDS
        self.log = self.folder / "truth.log"
        self.out = self.folder / "trace.db"

    # ---- running ------------------------------------------------------------------------

    def environment(self, preload=True, out="trace.db", **more):
        """The environment of a program; `out` None leaves LAYOUTSPY_OUT unset."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("LAYOUTSPY_", "STANDIN_")) and k != "LD_PRELOAD"}
        env["LAYOUTSPY_BUILD"] = str(BUILD)
        env["LAYOUTSPY_CUPTI"] = "off"  # most tests judge the hooks alone; those of CUPTI say so
        if preload:
            env["LD_PRELOAD"] = str(LIBRARY)
        if out is not None:
            env["LAYOUTSPY_OUT"] = str(self.folder / out)
        env.update({k: str(v) for k, v in more.items()})
        return env

    def command(self, command, devices=1, log=True, memory=None, preload_standin=True, standin=True):
        """`standin` False: without the simulated device, for programs that bring their own runtime."""
        if not standin:
            return [str(c) for c in command]
        on = [str(ON_STANDIN), "--devices", str(devices)]
        if log:
            on += ["--log", str(self.log if log is True else log)]
        if memory:
            on += ["--memory", str(memory)]
        if not preload_standin:
            on.append("--no-preload")
        return on + ["--"] + [str(c) for c in command]

    def start(self, command, env=None, stdin=subprocess.DEVNULL, **how):
        """Starts it in the test's folder, in a session of its own; output goes to pipes."""
        return subprocess.Popen(self.command(command, **how), cwd=self.folder, env=env or self.environment(),
                                stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def run(self, command, env=None, timeout=TIMEOUT, **how):
        process = self.start(command, env, **how)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return Outcome(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def record(self, command, out="trace.db", more_env=None, **how):
        """Runs it under LD_PRELOAD and waits for the trace."""
        outcome = self.run(command, self.environment(out=out, **(more_env or {})), **how)
        self.settle()
        return outcome

    def plain(self, command, **how):
        """The same without us, in the same folder, without a log."""
        how.setdefault("log", False)
        return self.run(command, self.environment(preload=False, out=None), **how)

    def same_with_and_without(self, command, **how):
        """Runs it both ways; output and status must be the same. Returns the recorded outcome."""
        without = self.plain(command, **{k: v for k, v in how.items() if k not in ("out", "more_env", "log")})
        outcome = self.record(command, **how)
        assert outcome.same_as(without), f"with layoutspy: {outcome}\nwithout: {without}"
        return outcome

    def layoutspy(self, *arguments, env=None, cwd=None, timeout=TIMEOUT, stdin=None):
        done = subprocess.run([str(self.program)] + [str(a) for a in arguments], cwd=cwd or self.folder,
                              env=env or self.environment(preload=False, out=None), timeout=timeout,
                              input=stdin, capture_output=True)
        return Outcome(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def collector(self):
        """The pid of `layoutspy collect` on this test's trace, or None."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    arguments = f.read().split(b"\0")
            except OSError:
                continue
            if b"collect" in arguments[:3] and any(str(self.folder).encode() in a for a in arguments):
                return int(pid)
        return None

    # ---- traces -------------------------------------------------------------------------

    def traces(self):
        return sorted(self.folder.glob("*.db"))

    def leftovers(self):
        """What a finished recording must not leave: spools, journals."""
        return sorted(p.name for p in self.folder.iterdir()
                      if re.search(r"\.(spool|db-wal|db-shm|db-journal)$", p.name))

    def settle(self, seconds=10):
        """Waits until the collectors are done: they promise 2 s after the end of their target, of an idle machine.
        One that is still at work is waited for: how much time it gets is not what is tested here."""
        begun = time.monotonic()
        while self.leftovers():
            waited = time.monotonic() - begun
            if waited > TIMEOUT or (waited > seconds and not self.collector()):
                break
            time.sleep(0.02)
        assert not self.leftovers(), f"still there after {waited:.0f} s: {self.leftovers()}"

    def trace(self, path=None):
        return Trace(path or self.out)

    def assert_true(self, path=None, allow_tail=0):
        """The one trace equals the one process of the log that made calls."""
        processes = [p for p in parse_log(self.log) if p.calls]
        assert len(processes) == 1, f"{len(processes)} processes made calls"
        result = compare(path or self.out, processes[0], allow_tail)
        assert not result.differences, str(result)
        assert result.counts["recorded"] > 0
        return result.counts

    def assert_all_true(self, allow_tail=0):
        result = compare_all(self.traces(), self.log, allow_tail)
        assert not result.differences, str(result)
        return result.counts

    def report(self, path=None):
        outcome = self.layoutspy("report", "--json", path or self.out)
        assert outcome.status == 0 and outcome.err == "", repr(outcome)
        return json.loads(outcome.out)

    def findings(self, path=None, above_info=False):
        found = self.report(path)["findings"]
        return [f for f in found if not above_info or f["severity"] != "info"]


def wait_until(condition, seconds=10, every=0.01):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(every)
    return True
