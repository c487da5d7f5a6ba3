"""What torch_cost.py measured, for a person: of each loop the ratio to the same loop unrecorded beside
its goal, where it comes from, and the cost of one call.

Usage: loops_report.py LINES TRACE
LINES is what torch_cost.py printed, TRACE what was recorded meanwhile: it knows the calls of a block.
"""

import json
import sqlite3
import statistics
import sys

GOAL = {"inference": 1.15}  # of training: 1.10
MEANING = """\
PyTorch loops, everything on, against the same process with recording stopped and CUPTI left, in
blocks that take turns. Kernels take no time on the simulated device and its calls next to none: a
step is the host's own work alone, so that the ratio is the worst that a program can have. A real step
takes longer, by its waits and its calls; what recording adds stays the same: divide it by your step.
CUPTI is simulated, too, by far more work than the device: the ratio with CUPTI on in both, too, is what
layoutspy adds. In brackets: half of the rounds lie between."""


def ratios(took, kind, which, base=None):
    """Of each round, by the mean of its two unrecorded blocks, or by its block of kind `base`."""
    if base:
        return [own[which] / off[which] for own, off in zip(took[kind], took[base])]
    unrecorded = zip(took["off"], took["control"])
    return [own[which] * 2 / (off[which] + control[which]) for own, (off, control) in zip(took[kind], unrecorded)]


def text(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.3f} [{low:.3f} {high:.3f}]"


def calls(trace, window):
    """Recorded calls between two moments of the wall clock, by their class."""
    start = int(trace.execute("SELECT value FROM meta WHERE key = 'start_real_ns'").fetchone()[0])
    return dict(trace.execute(
        "SELECT api.class, count(*) FROM call JOIN api ON api.id = call.api "
        "WHERE start_ns BETWEEN ? AND ? GROUP BY 1 ORDER BY 2 DESC", [at - start for at in window]))


def judged(values, goal):
    missed = statistics.median(values) - goal
    return f"{text(values)}, goal {goal:.2f}: " + (f"missed by {missed:.3f}" if missed > 0 else "reached")


def report_each_call(told, trace, goal):
    """What is added to a step, with CUPTI on in both: on the clock, and of the processor, which other programs do
    not stretch."""
    took, steps = told["took"], told["steps"]
    step = [statistics.median(block[which] for block in took["off"] + took["control"]) * 1e6 / steps
            for which in range(2)]
    added = [statistics.median(own[which] - cupti[which] for own, cupti in zip(took["all"], took["cupti"])) * 1e6 / steps
             for which in range(2)]
    by_class = calls(trace, told["counted"])
    number = sum(by_class.values()) / steps
    if not number:
        print(f"{'':12} no calls in the trace")
        return
    print(f"{'':12} an unrecorded step takes {step[0]:.0f} us ({step[1]:.0f} of the processor); layoutspy adds "
          f"{added[0]:.0f} ({added[1]:.0f}) for {number:.0f} calls: {added[0] / number:.2f} us a call "
          f"({added[1] / number:.2f})")
    print(f"{'':12} of its own, the goal is reached where a step takes {max(0, added[1]) / (goal - 1):.0f} us or more; "
          "calls: " + ", ".join(f"{name} {count / steps:.0f}" for name, count in by_class.items()))


def report(told, trace):
    took, name = told["took"], told["loop"]
    goal = GOAL.get(name, 1.10)
    collector = "not found" if told["collector"] is None else (
        f"{told['collector'] * 1e6 / told['recorded_steps']:.0f} us of the processor a recorded step")
    print(f"{name:12} everything on {judged(ratios(took, 'all', 0), goal)}")
    print(f"{'':12} CUPTI on in both {judged(ratios(took, 'all', 0, 'cupti'), goal)}; "
          f"of the processor {text(ratios(took, 'all', 1, 'cupti'))}")
    for words, kind, base in (("all but CUPTI", "hooks", None), ("CUPTI alone", "cupti", None),
                              ("PyTorch's own history", "history", None), ("control", "control", "off")):
        print(f"{'':12} {words} {text(ratios(took, kind, 0, base))}, of the processor "
              f"{text(ratios(took, kind, 1, base))}")
    report_each_call(told, trace, goal)
    print(f"{'':12} the collector, beside it: {collector}")


def main():
    lines, path = sys.argv[1:]
    trace = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    print(MEANING)
    with open(lines, encoding="utf-8") as file:
        for line in file:
            report(json.loads(line), trace)
    lost = trace.execute("SELECT ifnull(sum(count), 0) FROM lost").fetchone()[0]
    print(f"{'':12} of all loops: {lost} events lost")


main()
