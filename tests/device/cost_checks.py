"""What recording costs on the clock, by mode, and what is left of it after `layoutspy ctl PID stop`.

Times are told, not judged: only that all was recorded is. Loops run in processes of their own
(loops.py, programs/loops.c) that are told block by block what to run, so that modes alternate and
whatever drifts (clocks, other load) meets all of them alike.
"""

import os
import select
import signal
import subprocess
import time
from statistics import median

from c_checks import lost, with_cupti
from checks import HERE, Failed, Skipped
from torch_checks import QUIET, find_torch

SMALL = bool(os.environ.get("DEVICE_CHECK_SMALL"))
MODES = {"off": None, "hooks": {"LAYOUTSPY_CUPTI": "off"}, "copies": {"LAYOUTSPY_CUPTI": "copies"},
         "full": {"LAYOUTSPY_CUPTI": "full"}}
COUNTS = {"gemm": 5, "tiny": 500} if SMALL else {"gemm": 200, "tiny": 100000}
BLOCKS, ROUNDS = (1, 1) if SMALL else (3, 3)
AS_FAST = 1.05  # of a bare program's time, beside what two bare blocks differ by


def kinds_of_loops(bench):
    """name -> command line and environment."""
    def program():
        return [bench.program("loops")], with_cupti(bench)

    def torch():
        return [find_torch(bench)[0], HERE / "loops.py"] + (["64"] if SMALL else []), QUIET
    return {"c": program, "torch": torch}


class Loop:
    """A process that runs blocks."""

    def __init__(self, bench, kind, mode, trace=None):
        command, env = kinds_of_loops(bench)[kind]()
        self.bench, self.trace, self.made = bench, trace, {"gemm": 0, "tiny": 0}
        self.process = bench.start_process(command, trace=trace, env=dict(env, **(mode or {})))

    def send(self, what, count):
        self.process.stdin.write(f"{what} {count}\n".encode())
        self.process.stdin.flush()
        self.made[what] += count

    def answer(self):
        """The seconds of the oldest block that was asked for."""
        ready, _, _ = select.select([self.process.stdout], [], [], max(1, self.bench.left()))
        line = self.process.stdout.readline() if ready else b""
        if not line:
            raise Failed(f"no answer; the program has {'ended with ' + str(self.process.poll()) if ready else 'hung'}")
        return float(line)

    def block(self, what, count=None):
        self.send(what, count or COUNTS[what])
        return self.answer()

    def end(self):
        self.process.stdin.close()
        try:
            status = self.process.wait(max(1, min(30, self.bench.left())))
        except subprocess.TimeoutExpired:
            raise Failed("the program does not end") from None
        finally:
            self.kill()
        if status != 0:
            raise Failed(f"the program ended with {status}")

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *rest):
        if kind:
            self.kill()


def one_process(bench, kind, mode, trace):
    """Its medians; what it launched."""
    with Loop(bench, kind, MODES[mode], trace) as loop:
        for what, count in COUNTS.items():
            loop.block(what, max(1, count // 20))
        took = {what: median(loop.block(what) for _ in range(BLOCKS)) for what in COUNTS}
        loop.end()
    return took, loop.made


def sane(bench, trace, mode, made):
    """All launches are in the trace, and with `full` all kernels."""
    wrong = lost(bench, trace)
    launches = bench.sql(trace, "SELECT COUNT(*) AS n FROM api_call WHERE class = 'launch' AND flags & 1 = 0")[0]["n"]
    kernels = bench.sql(trace, "SELECT SUM(count + untimed) AS n FROM kernel_total")[0]["n"] or 0
    # cuBLAS launches with a runtime of its own, which the hooks do not see
    least = made["tiny"] + (made["gemm"] if mode == "full" else 0)
    if launches < made["tiny"]:
        wrong.append(f"{launches} launches of {made['tiny']} at least")
    if mode == "full" and kernels < least:
        wrong.append(f"{kernels} kernels of {least} at least")
    if wrong:
        raise Failed(f"{mode}: " + "\n".join(wrong))
    return f"{mode}: {launches} launches, {kernels} kernels"


def costs(bench, kind, traces):
    took = {mode: {what: [] for what in COUNTS} for mode in MODES}
    least_s = 0
    for number in range(ROUNDS):
        if number and bench.left() < 1.5 * least_s + 5:
            break
        began = time.monotonic()
        for mode in list(MODES)[number % 4:] + list(MODES)[:number % 4]:
            trace = bench.folder / f"cost-{kind}-{mode}-{number}.trace" if mode != "off" else None  # large: not packed
            medians, made = one_process(bench, kind, mode, trace)
            for what, seconds in medians.items():
                took[mode][what].append(seconds)
            if trace:
                traces[mode] = (trace, made)
        least_s = time.monotonic() - began
    lines, figures = [], {"rounds": len(took["off"]["tiny"]), "blocks": BLOCKS, "counts": COUNTS}
    for what, count in COUNTS.items():
        base = median(took["off"][what])
        parts = []
        for mode in MODES:
            each = took[mode][what]
            middle = median(each)
            figures[f"{what} {mode}"] = {"s": each, "ratio": middle / base, "us_each": middle / count * 1e6}
            parts.append(f"{mode} {middle / count * 1e6:.3f} us" + (f" ({middle / base:.3f})" if mode != "off" else ""))
        spread = (max(took["off"][what]) - min(took["off"][what])) / base
        lines.append(f"{what}: {', '.join(parts)}, spread of off {spread:.1%}")
    return f"each of {figures['rounds']} rounds: " + "; ".join(lines), figures


def complete(bench, traces):
    bench.settle(20)
    if not traces:
        raise Skipped("nothing was recorded")
    return "; ".join(sane(bench, trace, mode, made) for mode, (trace, made) in traces.items())


def check_costs(bench):
    for kind in kinds_of_loops(bench):
        traces = {}
        bench.check(f"cost-{kind}", costs, kind, traces, state="INFO")
        bench.check(f"cost-{kind}-complete", complete, traces)
        for old in bench.folder.glob(f"cost-{kind}-*"):
            old.unlink(missing_ok=True)


# ---- stop ---------------------------------------------------------------------------------------


def ctl(bench, loop, action):
    """While the program makes calls, by which it answers."""
    command = subprocess.Popen([str(bench.command), "ctl", str(loop.process.pid), action], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=bench.environment())
    until = time.monotonic() + min(15, max(1, bench.left()))
    while command.poll() is None and time.monotonic() < until:
        loop.block("tiny", 100)
        time.sleep(0.005)
    if command.poll() is None:
        command.kill()
    said = command.communicate()[0].decode(errors="replace").strip()
    if command.returncode != 0:
        raise Failed(f"ctl {action}: status {command.returncode}, {said}")


def stopped(bench, kind):
    """Blocks before, during and after a stop, each beside one of a bare process."""
    trace = bench.folder / f"stop-{kind}.trace"
    figures = {}
    with Loop(bench, kind, None) as bare, Loop(bench, kind, MODES["full"], trace) as loop:
        for one in (bare, loop):
            one.block("tiny", max(1, COUNTS["tiny"] // 20))

        def phase(name):
            pairs = [(bare.block("tiny"), loop.block("tiny")) for _ in range(BLOCKS + 2)]
            figures[name] = {"bare_s": [a for a, _ in pairs], "s": [b for _, b in pairs],
                             "ratio": median(b / a for a, b in pairs)}

        phase("before")
        ctl(bench, loop, "stop")
        phase("stopped")
        ctl(bench, loop, "start")
        phase("again")
        bare.end()
        loop.end()
    bench.settle()
    states = [row["state"] for row in bench.sql(trace, "SELECT state FROM gpu_state ORDER BY ts_ns, id")]
    all_bare = [s for one in figures.values() for s in one["bare_s"]]
    control = (sorted(all_bare)[len(all_bare) * 3 // 4] - median(all_bare)) / median(all_bare)
    figures["control"] = control
    said = (", ".join(f"{name} {figures[name]['ratio']:.3f}" for name in ("before", "stopped", "again"))
            + f" of a bare program; bare blocks differ by {control:.1%}")
    if states != [1, 2, 1]:
        raise Failed(f"CUPTI's states are {states}, not on, off, on; {said}")
    if not bench.runner and figures["stopped"]["ratio"] > AS_FAST + control:
        failed = Failed(f"not as fast as bare after stop: {said}")
        failed.figures = figures
        raise failed
    return said, figures


def check_stop(bench):
    for kind in kinds_of_loops(bench):
        bench.check(f"stop-{kind}", stopped, kind)
        for old in bench.folder.glob(f"stop-{kind}*"):
            old.unlink(missing_ok=True)
