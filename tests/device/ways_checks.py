"""Other ways to use CUDA, and to be recorded: a runtime that is linked statically, by
CUDA_INJECTION64_PATH alone; the driver's functions alone; what NVML says from outside; and facts about
CUPTI that only hardware tells (programs/probe.c)."""

import os
import re
import time
from pathlib import Path

from c_checks import (counted_of, differences, figures, foreign_sites, judge, lost, recorded, trace_counts,
                      with_cupti)
from checks import Failed, Skipped
from torch_checks import find_torch

FACT = re.compile(r"^FACT (\S+): (.*)$", re.MULTILINE)
USED = re.compile(r"^used (\d+) (\d+)$", re.MULTILINE)
NVML_LEEWAY = 4 << 20  # how far a step that NVML sees may be off what cudaMemGetInfo sees
LIBRARIES = "import os, torch; print(os.path.join(os.path.dirname(os.path.dirname(torch.__file__)), 'nvidia'))"


def static(bench):
    """All of it comes by CUPTI's callbacks: the same counts as of a shared runtime by the hooks."""
    argv = [bench.program("static")]
    without = bench.run(argv, env=with_cupti(bench))
    if without.status != 0:
        raise Skipped("a statically linked runtime does not start on this device")
    trace = bench.new_trace("static")
    env = {**with_cupti(bench), "CUDA_INJECTION64_PATH": bench.library, "LAYOUTSPY_CUPTI": "full"}
    outcome = bench.run(argv, trace=trace, env=env)
    if not outcome.same_as(without):
        raise Failed(f"with layoutspy: {outcome} | without: {without}")
    bench.settle()
    if not trace.exists():
        raise Failed("CUDA_INJECTION64_PATH alone left no trace")
    wrong = differences(counted_of(outcome)[0], trace_counts(bench, trace)) + lost(bench, trace)
    if wrong:
        raise Failed("\n".join(wrong))
    calls, foreign = foreign_sites(bench, trace, "memory.c")
    seen = bench.sql(trace, "SELECT seen_by, COUNT(*) AS n FROM api_call GROUP BY 1")
    return (f"{figures(counted_of(outcome)[0])}; calls seen by {seen}; {calls} sites, elsewhere: "
            f"{foreign[:3] or 'none'}")


def static_by_run(bench):
    """`layoutspy run` sets up both ways in."""
    if bench.run([bench.program("static")], env=with_cupti(bench)).status != 0:
        raise Skipped("a statically linked runtime does not start on this device")
    trace = bench.new_trace("static-run")
    outcome = bench.run([bench.command, "run", "-o", trace, "--", *bench.runner, bench.program("static")],
                        runner=False, env=with_cupti(bench))
    if outcome.status != 0 or not trace.exists():
        raise Failed(f"{outcome}, trace {trace.exists()}")
    return figures(counted_of(outcome)[0]) + judge_counts(bench, trace, outcome)


def judge_counts(bench, trace, outcome):
    wrong = differences(counted_of(outcome)[0], trace_counts(bench, trace))
    if wrong:
        raise Failed("\n".join(wrong))
    return ", the same in the trace"


def driver(bench):
    outcome, without, trace = recorded(bench, "driver", LAYOUTSPY_CUPTI="full")
    if outcome.status != 0:
        raise Failed(f"the program itself fails here, also without us: {outcome}")
    text = judge(bench, trace, counted_of(outcome)[0], "driver.c")
    row = bench.sql(trace, "SELECT COUNT(*) AS runs, SUM(call_id IS NOT NULL) AS matched FROM kernel_run")[0]
    copies = bench.sql(trace, "SELECT COUNT(*) AS n, SUM(gpu_ns IS NULL) AS untimed FROM all_copy")[0]
    if not row["runs"] or row["runs"] != row["matched"] or copies["untimed"]:
        raise Failed(f"kernels {row}, copies {copies}; {text}")
    return (f"{text}; {row['runs']} kernels with their calls, {copies['n']} copies with their times; "
            f"{outcome.out.splitlines()[0]}")


def nvml(bench):
    """How much each step of a program took, from outside and from inside."""
    env = with_cupti(bench)
    if bench.runner:
        env["STANDIN_SESSION"] = bench.folder / "session"
        env["LAYOUTSPY_NVML"] = Path(os.environ["LAYOUTSPY_BUILD"]) / "tests/standin/libs/libnvidia-ml.so.1"
    trace = bench.new_trace("used")
    outcome = bench.run([bench.program("used")], trace=trace, env=env)
    if outcome.status != 0:
        raise Failed(f"{outcome}")
    bench.settle()
    start = int(bench.sql(trace, "SELECT value FROM meta WHERE key = 'start_real_ns'")[0]["value"])
    looks = bench.sql(trace, "SELECT ts_ns, used, own_process FROM device_use WHERE source = 'nvml' ORDER BY ts_ns")
    if not looks:
        said = bench.sql(trace, "SELECT state, detail FROM coverage WHERE layer = 'device-memory'")
        raise Skipped(f"no figures of NVML's: {said}")
    steps = [(int(ns) - start, int(used)) for ns, used in USED.findall(outcome.out)]
    off, own = [], []
    for n, (begin, used) in enumerate(steps):
        end = steps[n + 1][0] if n + 1 < len(steps) else begin + 1200000000
        # not in the last moments, when the next step's memory is there already
        within = [row for row in looks if begin <= row["ts_ns"] <= end - 50000000]
        off += [row["used"] - used for row in within]
        own += [row["own_process"] for row in within if row["own_process"]]
    if len(off) < 2:
        raise Failed(f"{len(off)} looks of NVML during {len(steps)} steps: {looks}, {steps}")
    said = (f"{len(off)} looks, NVML's figure is {min(off) / 2**20:.1f} to {max(off) / 2**20:.1f} MiB above "
            f"cudaMemGetInfo's; of the process itself {[b >> 20 for b in own] or 'not told'} MiB")
    if max(off) - min(off) > NVML_LEEWAY:
        raise Failed(f"steps differ: {said}")
    return said, {"off_bytes": off, "own_bytes": own}


def check_all(bench):
    bench.check("static-runtime", static)
    bench.check("static-runtime-run", static_by_run)
    bench.check("driver-functions", driver)
    bench.check("nvml", nvml)


# ---- facts --------------------------------------------------------------------------------------


def newest(folder, pattern):
    found = sorted(str(p) for p in folder.glob(pattern)) if folder else []
    return found[-1] if found else None


def libraries(bench):
    """CUPTI and cuBLAS: PyTorch's, else what was carried or the loader finds."""
    if bench.runner:
        return "libcupti.so.13", "libcublas.so.13"
    folder = None
    try:
        looked = bench.run([find_torch(bench)[0], "-c", LIBRARIES], seconds=30)
        folder = Path(looked.out.strip()) if looked.status == 0 else None
    except (Failed, Skipped):
        pass
    carried = newest(bench.carry / "cupti", "libcupti.so.1*")
    return (newest(folder, "*/lib/libcupti.so.1*") or carried or "libcupti.so.13",
            newest(folder, "*/lib/libcublas.so.1*") or newest(Path("/usr/local/cuda/lib64"), "libcublas.so.1*")
            or "libcublas.so.13")


def probe(bench, what, least):
    cupti, cublas = libraries(bench)
    outcome = bench.run([bench.program("probe"), what, cupti, cublas], seconds=25,
                        env={"PROBE_LAUNCHES": 500 if os.environ.get("DEVICE_CHECK_SMALL") else 100000})
    facts = dict(FACT.findall(outcome.out))
    for name, value in facts.items():
        bench.say("INFO", f"FACT {name}", value, {"fact": name, "value": value})
    if outcome.status != 0 or len(facts) < least:
        raise Failed(f"{len(facts)} facts; {outcome}")
    return f"{len(facts)} facts, {cupti}"


def check_facts(bench):
    began = time.time()
    for what, least in (("calls", 8), ("subscribers", 3), ("graphs", 2), ("library", 1), ("late", 4)):
        bench.check(f"facts-{what}", probe, what, least)
    bench.log.write(f"facts took {time.time() - began:.0f} s\n")
