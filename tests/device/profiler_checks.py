"""What the GPU did, by layoutspy and by PyTorch's own profiler: kernels, copies, memory (profiled.py).

The two cannot look at the same time: CUPTI has room for one. So the same steps run in three windows of
one process, the middle one under torch.profiler, and all three must be the same work. The difference
between the two windows that are ours says how well a time repeats itself here.
"""

import ctypes
import json
import re
from collections import Counter, defaultdict
from statistics import median

from c_checks import lost
from checks import HERE, Failed
from torch_checks import QUIET, find_torch, has_torch

SCRIPT = HERE / "profiled.py"
WORKLOADS = ["cnn", "transformer", "inference", "loader"]
SHARE, LEAST_NS = 0.10, 1000  # how far medians of a kernel's time may differ: the larger of these, or
REPEATS = 2  # so many times what they differ by between our two windows
COPY = re.compile(r"Memcpy (\w)to(\w) \((\w+) -> (\w+)\)")
CALLS = ("cudaMalloc", "cudaFree", "cudaMemcpyAsync", "cudaMemcpy", "cudaMemsetAsync", "cudaGraphLaunch")
WITH_THREADS = ("cudaHostAlloc", "cudaFreeHost", "cudaEventQuery", "cudaEventRecord")  # as time will have it


def demangler():
    try:
        function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except (OSError, AttributeError):
        return lambda name: name
    function.restype, function.argtypes = ctypes.c_void_p, [ctypes.c_char_p] + 3 * [ctypes.c_void_p]

    def demangle(name):
        status = ctypes.c_int(1)
        made = function(name.encode(), None, None, ctypes.byref(status))
        text = ctypes.string_at(made).decode() if made and status.value == 0 else name
        if made:
            ctypes.CDLL(None).free(ctypes.c_void_p(made))
        return text
    return demangle


class Seen:
    """One window of the trace."""

    def __init__(self, bench, trace, window, theirs):
        self.bench, self.trace = bench, trace
        start = int(bench.sql(trace, "SELECT value FROM meta WHERE key = 'start_real_ns'")[0]["value"])
        self.within = "BETWEEN {} AND {}".format(*(t - start for t in window))
        self.kernels, self.states = defaultdict(list), Counter()
        demangle, names = demangler(), {}
        untimed = f"OR start_ns IS NULL AND launch_ns {self.within}"  # CUPTI gave it no times
        for row in self.rows("name, demangled, duration_ns, status FROM kernel_run", untimed):
            if row["name"] not in names:  # torch.profiler leaves the longest ones mangled
                forms = [row["name"], row["demangled"], demangle(row["name"])]
                names[row["name"]] = next((f for f in forms if f in theirs["kernels"]), forms[-1])
            self.kernels[names[row["name"]]].append(row["duration_ns"])
            self.states[row["status"]] += 1

    def rows(self, what, more=""):
        return self.bench.sql(self.trace, f"SELECT {what} WHERE start_ns {self.within} {more}")

    def gpu_copies(self):
        return Counter((r["direction"], r["src_kind"], r["dst_kind"], r["bytes"])
                       for r in self.rows("direction, src_kind, dst_kind, bytes FROM gpu_copy"))

    def call_copies(self):
        return Counter((r["direction"], r["src_kind"], r["dst_kind"], r["bytes"])
                       for r in self.rows("direction, src_kind, dst_kind, bytes FROM all_copy", "AND status = 0"))

    def memsets(self):
        return Counter(r["bytes"] for r in self.rows("bytes FROM gpu_set"))

    def calls(self):
        return {r["api"]: r["n"] for r in self.rows("api, COUNT(*) AS n FROM api_call", "GROUP BY api")}


class Profiled:
    """A workload, recorded, and what torch.profiler told of it."""

    def __init__(self, bench, python, name):
        self.name, self.trace = name, bench.new_trace(f"profiled-{name}")
        results = bench.folder / f"profiled-{name}.json"
        env = dict(QUIET, LAYOUTSPY_CUPTI="full", LAYOUTSPY_GRAPHS="nodes")
        self.outcome = bench.run([python, SCRIPT, name, results], seconds=70, env=env, trace=self.trace)
        if self.outcome.status != 0:
            raise Failed(f"{self.outcome}")
        bench.settle()
        told = json.loads(results.read_text())
        self.theirs = told["profiler"]
        self.windows = told["windows"]
        for window in ("ours", "profiler", "again"):
            setattr(self, window, Seen(bench, self.trace, self.windows[window], self.theirs))


def different(ours, theirs, limit=6):
    """Counters that are not the same, in words."""
    keys = sorted((set(ours) | set(theirs)), key=str)
    wrong = [f"{key}: {ours.get(key, 0)}, torch.profiler {theirs.get(key, 0)}"
             for key in keys if ours.get(key, 0) != theirs.get(key, 0)]
    return wrong[:limit] + ([f"and {len(wrong) - limit} more"] if len(wrong) > limit else [])


def must_be_same(what, ours, theirs):
    wrong = different(ours, theirs)
    if wrong:
        raise Failed("\n".join([what] + wrong))


def recorded(bench, made, python, name):
    made.append(Profiled(bench, python, name))
    profiled = made[0]
    wrong = lost(bench, profiled.trace)
    if wrong:
        raise Failed("\n".join(wrong))
    if not profiled.theirs["kernels"] and not profiled.theirs["copies"]:
        reason = bench.sql(profiled.trace, "SELECT state, detail FROM coverage WHERE layer = 'cupti'")
        made.clear()
        raise Failed(f"torch.profiler saw nothing of the GPU; layoutspy: {reason}")
    states = dict(profiled.ours.states)
    bench.run([bench.command, "info", profiled.trace], runner=False)  # for the log
    version = {row["key"]: row["value"] for row in
               bench.sql(profiled.trace, "SELECT key, value FROM meta WHERE key LIKE 'cupti_%'")}
    return (f"{profiled.outcome.out.strip()}, {sum(map(len, profiled.theirs['kernels'].values()))} kernels; "
            f"ours were {states}; CUPTI {version.get('cupti_version')} of {version.get('cupti_path')}; "
            f"{profiled.outcome.seconds:.1f} s"), {"ours": states, **version}


def stepped_aside(bench, profiled):
    """While torch.profiler records, CUPTI is its own, and the trace says so."""
    aside, n = profiled.profiler, sum(profiled.profiler.states.values())
    begin, end = map(int, re.findall(r"\d+", aside.within.replace("BETWEEN", "")))
    gaps = bench.sql(profiled.trace, "SELECT start_ns, end_ns, reason FROM cupti_gap")
    over = [g for g in gaps if g["start_ns"] <= begin and (g["end_ns"] is None or g["end_ns"] >= end)]
    if n or not over:
        raise Failed(f"{n} kernels of ours while it recorded; gaps: {gaps}")
    return f"{over[0]['reason']}, for {((over[0]['end_ns'] or end) - over[0]['start_ns']) / 1e6:.0f} ms"


def kernels(bench, profiled):
    theirs = Counter({name: len(times) for name, times in profiled.theirs["kernels"].items()})
    for window in (profiled.ours, profiled.again):
        name = "before" if window is profiled.ours else "after"
        must_be_same(f"{name} torch.profiler:", {k: len(t) for k, t in window.kernels.items()}, theirs)
    states = profiled.ours.states + profiled.again.states
    left = {k: n for k, n in states.items() if k not in ("matched", "graph")}
    if left:
        raise Failed(f"kernels without a call, or (invalid) without times: {left}")
    return (f"{sum(theirs.values())} kernels of {len(theirs)} names in each window, as torch.profiler has them, "
            "each with its call"), {"kernels": sum(theirs.values()), "names": len(theirs)}


def timed(durations):
    return [ns for ns in durations or [] if ns is not None]


def times(bench, profiled):
    """Medians by name. What both windows of ours differ by, no two profilers can agree better than."""
    wrong, worst, figures = [], (0, ""), {}
    for name, theirs in profiled.theirs["kernels"].items():
        ours, again = (timed(of.kernels.get(name)) for of in (profiled.ours, profiled.again))
        if not ours or not again:
            continue
        a, b, c = median(ours), median(theirs), median(again)
        allowed = max(SHARE * b, LEAST_NS, REPEATS * abs(a - c))
        figures[name[:120]] = {"runs": len(theirs), "ours_ns": a, "profiler_ns": b, "again_ns": c,
                               "allowed_ns": allowed}
        worst = max(worst, (abs(a - b) / allowed, name))
        if abs(a - b) > allowed:
            wrong.append(f"{name[:80]}: {a:.0f} ns, torch.profiler {b:.0f}, ours again {c:.0f}")
    sums = [sum(sum(timed(t)) for t in of.values()) / 1e6 for of in
            (profiled.ours.kernels, profiled.theirs["kernels"], profiled.again.kernels)]
    said = (f"tolerance: the larger of {SHARE:.0%}, {LEAST_NS} ns and {REPEATS} times our own difference; "
            f"in all {sums[0]:.3f} ms, torch.profiler {sums[1]:.3f}, ours again {sums[2]:.3f}")
    if wrong:
        failed = Failed("\n".join([f"{len(wrong)} of {len(figures)} medians differ; {said}"] + wrong[:5]))
        failed.figures = figures
        raise failed
    return f"{len(figures)} medians; {said}; worst {worst[0]:.2f} of what is allowed: {worst[1][:60]}", figures


def by_call(copies, crossing):
    """By direction and bytes: what memory is pinned, hooks and CUPTI may call by different names."""
    sums = Counter()
    for (way, _, _, size), n in copies.items():
        if not crossing or way in ("H2D", "D2H"):
            sums[way, size] += n
    return sums


def copies(bench, profiled):
    """Every copy and memset, by direction, memory and bytes: the GPU's work, and the calls."""
    theirs = Counter()
    for name, size, _ in profiled.theirs["copies"]:
        found = COPY.match(name)
        if not found:
            raise Failed(f"torch.profiler has a copy called '{name}'")
        way = "{}2{}".format(*found.group(1, 2)).replace("P2P", "D2D")
        theirs[way, found.group(3).lower(), found.group(4).lower(), size] += 1
    for window in ("ours", "again"):
        must_be_same(f"on the GPU, {window}:", getattr(profiled, window).gpu_copies(), theirs)
        must_be_same(f"memsets, {window}:", getattr(profiled, window).memsets(),
                     Counter(size for _, size, _ in profiled.theirs["memsets"]))
    for window in ("ours", "profiler", "again"):
        # what a library copies on the device by a runtime of its own, CUPTI alone sees
        crossing = window == "profiler"
        must_be_same(f"calls, {window}:", by_call(getattr(profiled, window).call_copies(), crossing),
                     by_call(theirs, crossing))
    untimed = len(profiled.ours.rows("call_id FROM all_copy", "AND status = 0 AND gpu_ns IS NULL"))
    if untimed:
        raise Failed(f"{untimed} copies have no GPU time")
    return (f"{sum(theirs.values())} copies of {len(theirs)} kinds and {len(profiled.theirs['memsets'])} memsets in "
            "each window, as torch.profiler has them, each with its time; the hooks have the same, in all three")


def memory(bench, profiled):
    """What PyTorch's allocator handed out and took back while torch.profiler recorded: address by address."""
    window, ours = profiled.profiler, Counter()
    for row in window.rows("address, size FROM block_lifetime"):
        ours[row["address"], row["size"]] += 1
    for row in bench.sql(profiled.trace, f"SELECT address, size FROM block_lifetime WHERE end_ns {window.within}"):
        ours[row["address"], -row["size"]] += 1
    theirs = Counter((address, size) for address, size in profiled.theirs["memory"])
    must_be_same("blocks:", ours, theirs)
    return f"{sum(theirs.values())} blocks made and given back, as torch.profiler has them"


def calls(bench, profiled):
    """Calls of the runtime: by hooks and CUPTI all of them, by the hooks alone those that are not made
    inside of libraries, and in any case those that take memory."""
    theirs, ours, hooks = profiled.theirs["calls"], profiled.ours.calls(), profiled.profiler.calls()
    names = [name for name in CALLS if name in theirs or name in ours]
    must_be_same("calls:", {n: ours.get(n, 0) for n in names}, {n: theirs.get(n, 0) for n in names})
    names_hooks = [n for n in names if n in ("cudaMalloc", "cudaFree")]
    must_be_same("calls by hooks alone:", {n: hooks.get(n, 0) for n in names_hooks},
                 {n: theirs.get(n, 0) for n in names_hooks})
    beside = {n: theirs.get(n, 0) - hooks.get(n, 0) for n in names if theirs.get(n, 0) != hooks.get(n, 0)}
    return (", ".join(f"{ours.get(n, 0)} {n}" for n in names) or "none") + f"; beside the hooks: {beside or 'none'}"


def other_calls(bench, profiled):
    """For the reader: launches that the hooks alone do not see, and calls of other threads."""
    theirs = profiled.theirs["calls"]
    launches = {n: theirs[n] for n in theirs if "Launch" in n}
    seen = {}
    for window in ("ours", "profiler"):
        of = getattr(profiled, window)
        seen[window] = {r["seen_by"]: r["n"] for r in
                        of.rows("seen_by, COUNT(*) AS n FROM api_call", "AND class = 'launch' GROUP BY seen_by")}
    ours = profiled.profiler.calls()
    threads = {n: [ours.get(n, 0), theirs.get(n, 0)] for n in WITH_THREADS if n in ours or n in theirs}
    return (f"launches: torch.profiler {launches}, ours {seen['ours']}, ours by hooks alone {seen['profiler']}; "
            f"hooks and torch.profiler: {threads}"), {"launches": launches, "seen": seen, "threads": threads}


def check_all(bench):
    if not has_torch(bench):
        return
    python = find_torch(bench)[0]
    for name in WORKLOADS:
        made = []
        if not bench.check(f"profiler-{name}", recorded, made, python, name) and not made:
            continue  # what was recorded is compared, whatever was lost
        for what in (stepped_aside, kernels, times, copies, memory, calls):
            bench.check(f"profiler-{name}-{what.__name__.replace('_', '-')}", what, made[0])
        bench.check(f"profiler-{name}-other-calls", other_calls, made[0], state="INFO")
