"""What the checks on a real device share: running programs with and without layoutspy, each with a
time limit, asking their traces, and one line per check, with its figures.

Standard library only. Traces are read by the carried `layoutspy sql`, which also waits for the
collector.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STATES = ("PASS", "FAIL", "INFO", "SKIP")
TRACES_MAX = 15 << 20  # bytes of the archive of traces: what is larger is left out, and named


class Failed(Exception):
    """What was found instead of what should be."""


class Skipped(Exception):
    """Why a check cannot be made here."""


class Outcome:
    def __init__(self, status, out, err, seconds):
        self.status, self.out, self.err, self.seconds = status, out, err, seconds

    def same_as(self, other):
        return (self.status, self.out, self.err) == (other.status, other.out, other.err)

    def __repr__(self):
        return f"status {self.status}, stdout {self.out[-400:]!r}, stderr {self.err[-400:]!r}"


class Bench:
    """Where everything is, how much time is left, and what was found."""

    def __init__(self, carry, seconds):
        self.start = time.monotonic()
        self.deadline = self.part_deadline = self.start + seconds
        self.carry = Path(carry)
        self.library = self.carry / "lib" / "liblayoutspy.so"
        self.command = self.carry / "bin" / "layoutspy"
        self.runner = shlex.split(os.environ.get("DEVICE_CHECK_RUNNER", ""))
        if self.runner and os.path.exists(self.runner[0]):  # programs run in a folder of their own
            self.runner[0] = os.path.abspath(self.runner[0])
        self.folder = Path(tempfile.mkdtemp(prefix="device-check."))
        out = os.environ.get("OUT")
        self.out = Path(out) if out else self.folder / "out"
        self.out.mkdir(parents=True, exist_ok=True)
        self.log = open(self.out / "log", "w", buffering=1)
        self.part = ""
        self.results = []
        self.failed_traces = set()
        self.traces = []
        self.found = {}  # what was looked for once: torch, the device

    def begin_part(self, name, seconds):
        """All that runs from now on has this long, and no longer than is left of the whole."""
        self.part = name
        self.part_deadline = min(self.deadline, time.monotonic() + seconds)
        self.log.write(f"---- {name}, {self.deadline - time.monotonic():.0f} s left\n")

    # ---- running --------------------------------------------------------------------------------

    def left(self):
        return self.part_deadline - time.monotonic()

    def program(self, name):
        path = self.carry / "programs" / name
        if not path.exists():
            raise Skipped(f"{path.name} was not built ({(self.carry / 'needs').read_text().strip()})")
        return str(path)

    def environment(self, trace=None, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("LAYOUTSPY_") and k != "LD_PRELOAD"}
        if "LAYOUTSPY_BUILD" in os.environ and self.runner:
            env["LAYOUTSPY_BUILD"] = os.environ["LAYOUTSPY_BUILD"]  # the simulated device's
        if trace:
            env["LAYOUTSPY_OUT"] = str(trace)
            if not (more.get("CUDA_INJECTION64_PATH")):  # the other way in
                env["LD_PRELOAD"] = str(self.library)
        env.update({k: str(v) for k, v in more.items()})
        return env

    def run(self, command, seconds=40, trace=None, env=None, runner=True):
        """Runs it, recorded where a trace is given. Too long: killed with all its children, Failed."""
        command = (self.runner if runner else []) + [str(c) for c in command]
        seconds = min(seconds, self.left())
        if seconds < 1:
            raise Skipped("no time left")
        began = time.monotonic()
        process = subprocess.Popen(command, env=self.environment(trace, **(env or {})), cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            out, err = self.kill(process)
            self.note(command, process.returncode, out, err, seconds)
            raise Failed(f"{shlex.join(command)} did not end within {seconds:.0f} s") from None
        except BaseException:
            self.kill(process)
            raise
        took = time.monotonic() - began
        self.note(command, process.returncode, out, err, took)
        return Outcome(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"), took)

    def kill(self, process):
        """With all its children. One that hangs in the driver may not even die of this."""
        os.killpg(process.pid, signal.SIGKILL)
        try:
            return process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            return b"", b"it cannot be killed"

    def note(self, command, status, out, err, seconds):
        self.log.write(f"$ {shlex.join(command)}\n  status {status}, {seconds:.2f} s\n")
        for text in (out, err):
            if text:
                self.log.write(text.decode(errors="replace")[-4000:] + "\n")

    def new_trace(self, name):
        trace = self.folder / f"{name}.db"
        self.traces.append(trace)
        return trace

    def start_process(self, command, trace=None, env=None):
        """One that is talked to by its input and output; whoever starts it ends it."""
        if self.left() < 1:
            raise Skipped("no time left")
        command = self.runner + [str(c) for c in command]
        self.log.write(f"$ {shlex.join(command)} &\n")
        return subprocess.Popen(command, env=self.environment(trace, **(env or {})), cwd=self.folder,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=open(self.folder / "stderr", "ab"), start_new_session=True)

    def sql(self, trace, query):
        """A trace's rows, as dictionaries."""
        done = self.run([self.command, "sql", "--json", trace, query], runner=False)
        if done.status != 0:
            raise Failed(f"no answer from {trace.name}: {done.err.strip()}")
        return json.loads(done.out)

    # ---- results --------------------------------------------------------------------------------

    def say(self, state, name, text, figures=None):
        one = {"part": self.part, "name": name, "state": state, "text": " | ".join(str(text).splitlines()),
               "figures": figures or {}, "at_s": round(time.monotonic() - self.start, 1)}
        self.results.append(one)
        line = f"{state} {name}: {one['text']}"
        print(line, flush=True)
        self.log.write(line + "\n")
        self.save()  # whatever ends us: what was found by then is there

    def counts(self):
        return {state: sum(one["state"] == state for one in self.results) for state in STATES}

    def save(self):
        beside = self.out / "results.json.new"
        beside.write_text(json.dumps({"seconds": round(time.monotonic() - self.start, 1), "counts": self.counts(),
                                      "results": self.results}, indent=1))
        beside.replace(self.out / "results.json")

    def check(self, name, function, *arguments, state="PASS"):
        """One check: `function` returns its text, or that and its figures, or raises. True if it holds.
        state "INFO": what it finds is told, and cannot fail but by a fault."""
        before = len(self.traces)
        try:
            told = function(self, *arguments)
            self.say(state, name, *(told if isinstance(told, tuple) else (told,)))
            return True
        except Skipped as reason:
            self.say("SKIP", name, reason)
        except Exception as found:  # a fault of the check itself must not end the others
            text = str(found) if isinstance(found, Failed) else f"{type(found).__name__}: {found}"
            self.say("FAIL", name, text or repr(found), getattr(found, "figures", None))
            self.failed_traces.update(self.traces[before:])
        return False

    def settle(self, seconds=10):
        """Waits for the collectors of programs that were stopped: nobody asked their traces."""
        end = time.monotonic() + seconds
        while any(self.folder.glob("*.spool")) and time.monotonic() < end:
            time.sleep(0.05)

    def pack_traces(self):
        """One archive, so that few files have to be taken along: those of failed checks first."""
        self.settle()
        left_out = []
        order = sorted(self.folder.glob("*.db"), key=lambda t: (t not in self.failed_traces, t.stat().st_size))
        archive = self.out / "traces.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            for trace in order:
                if archive.stat().st_size + trace.stat().st_size // 3 > TRACES_MAX:
                    left_out.append(trace.name)
                else:
                    tar.add(trace, trace.name)
        if left_out:
            self.log.write(f"not in the archive, too large: {' '.join(left_out)}\n")

    def summarize(self):
        """summary.txt: every line, by part, and how many of each."""
        lines, part = [], None
        for one in self.results:
            if one["part"] != part:
                part = one["part"]
                lines += ["", f"== {part}"]
            lines.append(f"{one['state']} {one['name']}: {one['text']}")
        counts = self.counts()
        last = "{PASS} passed, {FAIL} failed, {SKIP} skipped, {INFO} told".format(**counts)
        failed = [one["name"] for one in self.results if one["state"] == "FAIL"]
        lines += ["", last + (f"; failed: {' '.join(failed)}" if failed else ""),
                  f"{time.monotonic() - self.start:.0f} s in all"]
        (self.out / "summary.txt").write_text("\n".join(lines[1:]) + "\n")
        return last

    def finish(self):
        self.part = "end"
        try:
            self.pack_traces()
        except OSError as reason:
            self.say("FAIL", "traces", f"cannot be packed: {reason}")
        self.save()
        last = self.summarize()
        self.log.write(last + "\n")
        self.log.close()
        if self.out.parent != self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        else:
            print(f"traces, log, summary.txt and results.json: {self.out}")
        print(last, flush=True)
        counts = self.counts()
        return 1 if counts["FAIL"] or not counts["PASS"] else 0
