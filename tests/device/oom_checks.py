"""Memory that runs out for real (oom_steps.py), with each of PyTorch's two ways to hold memory: the
program dies as without us, and the trace and `layoutspy oom` say of what."""

import json
import re

from checks import HERE, Failed, Skipped
from torch_checks import ALLOCATORS, QUIET, find_torch, has_torch

SCRIPT = HERE / "oom_steps.py"
LEEWAY = 0.2  # GiB: what CUPTI may take of the device for its own buffers, in PyTorch's figures
FIGURE = re.compile(r"([\d.]+) (bytes|KiB|MiB|GiB)(?= (?:is free|memory in use|is allocated|is reserved))")
UNITS = {"bytes": 2 ** -30, "KiB": 2 ** -20, "MiB": 2 ** -10, "GiB": 1.0}


def line_of(marker):
    lines = SCRIPT.read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# SITE: {marker}"))


class Dying:
    def __init__(self, bench, python, allocator):
        env = dict(QUIET, **ALLOCATORS[allocator])
        argv = [python, SCRIPT, bench.folder / f"sizes{allocator}.json"]
        self.trace = bench.new_trace(f"dying{allocator}")
        self.without = bench.run(argv, seconds=40, env=env)
        if "OutOfMemoryError" not in self.without.err:
            raise Skipped(f"does not run out of memory here without us: {self.without}")
        self.sizes = json.loads((bench.folder / f"sizes{allocator}.json").read_text())
        self.outcome = bench.run(argv, seconds=60, env=env, trace=self.trace)
        bench.settle()


def words(text):
    """The exception without what another process must have differently, and PyTorch's figures in GiB."""
    text = re.sub(r"\b[Pp]rocess \d+", "process PID", text)
    return FIGURE.sub("FIGURE", text), [float(n) * UNITS[unit] for n, unit in FIGURE.findall(text)]


def same_exception(bench, made, python, allocator):
    made.append(Dying(bench, python, allocator))
    dying = made[0]
    (ours, figures), (theirs, others) = words(dying.outcome.err), words(dying.without.err)
    if (dying.outcome.status, dying.outcome.out, ours) != (dying.without.status, dying.without.out, theirs):
        raise Failed(f"with layoutspy: {dying.outcome} | without: {dying.without}")
    off = [abs(a - b) for a, b in zip(figures, others)]
    if max(off, default=0) > LEEWAY:
        raise Failed(f"figures in the text differ by {max(off):.2f} GiB: {figures}, without us {others}")
    said = next(line for line in dying.outcome.err.splitlines() if "OutOfMemoryError" in line)
    return (f"the same text and status {dying.outcome.status}; its figures within {max(off, default=0) * 1024:.0f} MiB "
            f"(CUPTI's own memory): {said[:160]}"), {"gib_with": figures, "gib_without": others}


def event(bench, dying):
    rows = bench.sql(dying.trace, "SELECT * FROM oom_event WHERE recovered = 0")
    if len(rows) != 1:
        raise Failed(f"{len(rows)} events, not 1: {rows}")
    row, (first, second, third) = rows[0], dying.sizes
    held = first + 5 * (second // 5)
    if row["requested"] != third or f"{SCRIPT.name}:{line_of('more')} " not in row["site"]:
        raise Failed(f"asked for {third} bytes at line {line_of('more')}: {row}")
    if not held <= row["allocated"] <= held + (16 << 20):
        raise Failed(f"{held} bytes were held: {row}")
    return (f"asked for {third} bytes, {row['allocated']} held, {row['device_free']} free, {row['attempts']} attempts, "
            f"at {row['site']}"), {k: row[k] for k in ("requested", "asked", "allocated", "reserved", "device_free")}


def census(bench, dying):
    rows = bench.sql(dying.trace, "SELECT id, state, tensors, detail, (end_ns - ts_ns) / 1000 AS us FROM census"
                                  " WHERE reason = 1")
    if not rows or rows[-1]["state"] != 2:
        raise Failed(f"not complete: {rows}")
    held = bench.sql(dying.trace, f"SELECT SUM(bytes) AS bytes FROM census_storage WHERE census = {rows[-1]['id']}")
    paths = [row["path"] for row in bench.sql(dying.trace, "SELECT DISTINCT path FROM census_path")]
    named = [name for name in ("weights", "cache") if any(name in path for path in paths)]
    if (held[0]["bytes"] or 0) < sum(dying.sizes[:2]) * 0.999 or len(named) != 2:
        raise Failed(f"{held[0]['bytes']} bytes of {sum(dying.sizes[:2])}, {named} of weights, cache in {paths[:6]}")
    return f"{rows[-1]['tensors']} tensors of {held[0]['bytes']} bytes, by name, in {rows[-1]['us']} us", rows[-1]


def told(bench, dying):
    """`layoutspy oom` names who asked and both who held the most."""
    done = bench.run([bench.command, "oom", dying.trace], runner=False, env={"COLUMNS": "200", "NO_COLOR": "1"})
    missing = [marker for marker in ("more", "weights", "cache") if f"{SCRIPT.name}:{line_of(marker)}" not in done.out]
    if done.status != 0 or missing:
        raise Failed(f"status {done.status}, without the lines of {missing}: {done.out[:600]}")
    return f"names the lines {', '.join(str(line_of(m)) for m in ('more', 'weights', 'cache'))}"


def check_all(bench):
    if not has_torch(bench):
        return
    for allocator in ALLOCATORS:
        made = []
        if bench.check(f"oom-exception{allocator}", same_exception, made, find_torch(bench)[0], allocator) or made:
            for what in (event, census, told):
                bench.check(f"oom-{what.__name__}{allocator}", what, made[0])
