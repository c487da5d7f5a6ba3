"""Programs of tests/device/programs, recorded: each counted by itself, the trace must say the same,
and the program must print and end as without us. By the hooks alone, and by hooks and CUPTI."""

import json
import os
import re
import shutil

from checks import Failed, Skipped

COUNTED = re.compile(r"^counts: (\{.*\})$", re.MULTILINE)

PROGRAMS = ("memory", "copies", "small_copies", "pools", "streams", "graphs", "oom", "kernels")
BY_CUPTI = {"LAYOUTSPY_CUPTI": "full", "COUNT_ALL": "1"}

# Of several threads that begin together, one may have begun a call as CUPTI was switched on.
AT_THE_START = 2

# Copies that were not captured and have no GPU time; those of them that began while CUPTI was on.
UNTIMED = """SELECT COUNT(*) AS n, COALESCE(SUM(NOT EXISTS (SELECT 1 FROM cupti_gap AS g WHERE c.start_ns >= g.start_ns
    AND (g.end_ns IS NULL OR c.start_ns <= g.end_ns))), 0) AS outside
    FROM all_copy AS c WHERE status = 0 AND gpu_ns IS NULL AND call_id NOT IN (SELECT id FROM call WHERE flags & 2)"""

# program -> work that it captures: copies and memsets, launches
CAPTURED = {"graphs": (12, 0), "kernels": (0, 5)}


def by_kind(rows):
    return {row["what"]: [row["calls"], row["bytes"]] for row in rows}


def trace_counts(bench, trace):
    """What the trace says, in the words of count.h."""
    def grouped(select, rest):
        return by_kind(bench.sql(trace, f"SELECT {select} {rest} GROUP BY 1"))

    memory = "kind AS what, COUNT(*) AS calls, SUM(size) AS bytes FROM all_allocation"
    said = {
        "made": grouped(memory, ""),
        "freed": grouped(memory, "WHERE free_api IS NOT NULL"),
        "copies": grouped("direction || ' ' || src_kind || ' ' || dst_kind AS what, COUNT(*) AS calls,"
                          " SUM(bytes) AS bytes FROM all_copy", "WHERE status = 0"),
        "memsets": [0, 0],
    }
    for api in bench.sql(trace, "SELECT id, fields FROM api WHERE class = 'memset'"):
        field = [f["name"] for f in json.loads(api["fields"])].index("bytes")
        row = bench.sql(trace, f"SELECT COUNT(*) AS calls, COALESCE(SUM(f{field}), 0) AS bytes FROM call"
                               f" WHERE api = {api['id']} AND status = 0")[0]
        said["memsets"] = [said["memsets"][0] + row["calls"], said["memsets"][1] + row["bytes"]]
    one = bench.sql(trace, "SELECT SUM(class = 'launch' AND status = 0) AS launches,"
                           " SUM(api = 'cudaGraphLaunch' AND status = 0) AS graph_launches,"
                           " SUM(status NOT IN (0, 600)) AS failed FROM api_call")[0]
    said.update(one)
    return said


def differences(counted, said):
    return [f"{key}: the program counted {value}, the trace says {said[key]}"
            for key, value in counted.items() if value != said[key]]


def lost(bench, trace):
    return [f"lost: {row['count']} {row['reason']}" for row in bench.sql(trace, "SELECT * FROM lost_event")]


def foreign_sites(bench, trace, source):
    """Allocations and copies whose site is no line of the program's source."""
    rows = bench.sql(trace, "SELECT site, COUNT(*) AS calls FROM (SELECT site FROM all_allocation"
                            " UNION ALL SELECT site FROM all_copy) GROUP BY site")
    pattern = re.compile(rf"(.*/)?{re.escape(source)}:\d+ \w+")
    return sum(row["calls"] for row in rows), [f"{row['calls']} at {row['site']}" for row in rows
                                               if not pattern.fullmatch(row["site"])]


def figures(counted):
    made, copies = counted["made"].values(), counted["copies"].values()
    return (f"{sum(n for n, _ in made)} allocations of {sum(b for _, b in made)} bytes, "
            f"{sum(n for n, _ in copies)} copies of {sum(b for _, b in copies)} bytes in {len(copies)} kinds")


def with_cupti(bench):
    """A program beside no toolkit finds the CUPTI that was carried."""
    before = os.environ.get("LD_LIBRARY_PATH")
    return {"LD_LIBRARY_PATH": f"{bench.carry / 'cupti'}:{before}" if before else bench.carry / "cupti"}


def recorded(bench, name, *arguments, **env):
    """The program without us and with us: its outcomes, and the trace."""
    argv = [bench.program(name), *arguments]
    trace = bench.new_trace("-".join([name, *arguments]))
    without = bench.run(argv, env=with_cupti(bench))
    outcome = bench.run(argv, trace=trace, env={**with_cupti(bench), "LAYOUTSPY_CUPTI": "off", **env})
    if not outcome.same_as(without):
        raise Failed(f"with layoutspy: {outcome} | without: {without}")
    if outcome.out.startswith("unsupported"):
        raise Skipped(outcome.out.splitlines()[0])
    return outcome, without, trace


def counted_of(outcome):
    found = COUNTED.findall(outcome.out)
    if not found:
        raise Failed(f"the program counted nothing: {outcome}")
    return [json.loads(text) for text in found]


def judge(bench, trace, counted, source):
    wrong = differences(counted, trace_counts(bench, trace)) + lost(bench, trace)
    calls, foreign = foreign_sites(bench, trace, source)
    wrong += [f"site: {text}" for text in foreign[:5]]
    if wrong:
        raise Failed("\n".join(wrong))
    return f"{figures(counted)}, {calls} sites"


def program(bench, name):
    outcome, without, trace = recorded(bench, name)
    if outcome.status != 0:
        raise Failed(f"the program itself fails here, also without us: {outcome}")
    text = judge(bench, trace, counted_of(outcome)[0], f"{name}.c")
    if name in CAPTURED:
        row = bench.sql(trace, "SELECT SUM(class IN ('copy', 'memset')) AS moves, SUM(class = 'launch') AS launches"
                               " FROM api_call WHERE flags & 2")[0]
        if (row["moves"], row["launches"]) != CAPTURED[name]:
            raise Failed(f"captured: {row}, not {CAPTURED[name]}")
        text += ", captures undisturbed"
    return f"{text}; {without.seconds:.2f} s without us, {outcome.seconds:.2f} with"


def by_cupti(bench, name):
    """Hooks and CUPTI together: what passes beside the hooks is there, too, and nothing is there twice."""
    trace = bench.new_trace(f"{name}-cupti")
    outcome = bench.run([bench.program(name)], trace=trace, env={**with_cupti(bench), **BY_CUPTI})
    if outcome.status != 0:
        raise Failed(f"with CUPTI: {outcome}")
    if outcome.out.startswith("unsupported"):
        raise Skipped(outcome.out.splitlines()[0])
    counted = counted_of(outcome)[0]
    state = bench.sql(trace, "SELECT state, detail FROM coverage WHERE layer = 'cupti'")
    wrong = differences(counted, trace_counts(bench, trace)) + lost(bench, trace)
    if not state or state[0]["state"] != "on":
        wrong.append(f"CUPTI: {state}")
    if wrong:
        raise Failed("\n".join(wrong))
    row = bench.sql(trace, "SELECT COUNT(*) AS n, SUM(flags & 8 <> 0) AS alone FROM api_call")[0]
    work = {r["kind"]: r["n"] for r in bench.sql(trace, "SELECT kind, SUM(count) AS n FROM gpu_count GROUP BY kind")}
    untimed = bench.sql(trace, UNTIMED)[0]
    if untimed["outside"] > AT_THE_START:
        raise Failed(f"{untimed['outside']} copies have no time, though CUPTI was on; the GPU's work: {work}")
    return (f"{figures(counted)}; {row['n']} calls, {row['alone'] or 0} by CUPTI alone; the GPU's work: {work}; "
            f"{untimed['n']} copies without a time, {untimed['outside']} of them after CUPTI was on"), {
                "work": work, "untimed": untimed["n"], "untimed_though_on": untimed["outside"]}


def ending(bench, how, status):
    """However the program ends: its status is its own, and the trace holds all of it."""
    outcome, _, trace = recorded(bench, "memory", how)
    if outcome.status != status:
        raise Failed(f"status {outcome.status}, not {status}")
    return f"status {status}, {judge(bench, trace, counted_of(outcome)[0], 'memory.c')}"


def ipc(bench):
    outcome, _, trace = recorded(bench, "ipc")
    if outcome.status != 0:
        raise Failed(f"the program itself fails here, also without us: {outcome}")
    traces = [trace] + sorted(trace.parent.glob(f"{trace.stem}.[0-9]*.db"))
    if len(traces) != 2:
        raise Failed(f"{len(traces)} traces of two processes")
    counts = counted_of(outcome)[::-1]  # the child ends first; the parent called first and has the plain name
    wrong = [text for counted, path in zip(counts, traces) for text in differences(counted, trace_counts(bench, path))]
    if wrong:
        raise Failed("\n".join(wrong))
    return "; ".join(figures(counted) for counted in counts)


def sticky(bench):
    """The error of a kernel that wrote to no memory stays, for the same calls, as without us."""
    outcome, _, trace = recorded(bench, "kernels", "illegal")
    said = outcome.out.replace("\n", ", ")
    if outcome.status == 0:
        raise Skipped("kernels do nothing on this device")
    if outcome.status != 3 or "cudaErrorIllegalAddress" not in outcome.out:
        raise Failed(f"not what an illegal kernel does: {outcome}")
    failed = counted_of(outcome)[0]["failed"]
    found = bench.sql(trace, "SELECT COUNT(*) AS n FROM api_call WHERE status NOT IN (0, 600)")[0]["n"]
    if found != failed:
        raise Failed(f"{failed} calls failed, {found} in the trace; {said}")
    return f"{failed} failed calls; {said.split('counts')[0]}"


def run_verb(bench):
    """`layoutspy run` ends as its command does, sums up, and its trace is the same."""
    trace = bench.new_trace("run")
    outcome = bench.run([bench.command, "run", "-o", trace, "--", *bench.runner, bench.program("memory"), "exit7"],
                        runner=False, env=with_cupti(bench))
    if outcome.status != 7:
        raise Failed(f"not the command's status: {outcome}")
    text = judge(bench, trace, counted_of(outcome)[0], "memory.c")
    report = bench.run([bench.command, "report", "--json", trace], runner=False)
    kinds = sorted({f["kind"] for f in json.loads(report.out)["findings"]})
    if report.status != 0 or "leak" not in kinds:
        raise Failed(f"no leak among {kinds}, status {report.status}")
    return f"status 7, {text}, findings: {' '.join(kinds)}"


def carried_libraries(bench):
    """The carried command starts, with the libraries that were carried where there are any."""
    newest = re.search(r"^glibc (\S+)", (bench.carry / "needs").read_text(), re.MULTILINE).group(1)
    here = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    if [int(n) for n in here.split(".")] < [int(n) for n in newest.split(".")]:
        raise Failed(f"this machine has glibc {here}, the build needs {newest}: build on an older one")
    done = bench.run([bench.command, "--version"], runner=False)
    if done.status != 0:
        raise Failed(repr(done))
    return f"{done.out.strip()}, glibc {here} (needs {newest})"


def device(bench):
    outcome = bench.run([bench.program("device")])
    if outcome.status != 0:
        raise Failed(outcome.err.strip() or repr(outcome))
    return outcome.out.splitlines()[0]


def nvidia_smi(bench):
    if bench.runner or not shutil.which("nvidia-smi"):
        raise Skipped("none here" if not bench.runner else "this device is not NVIDIA's")
    done = bench.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used",
                      "--format=csv,noheader"], runner=False)
    if done.status != 0:
        raise Failed(repr(done))
    return done.out.strip().replace("\n", "; ")


def check_device(bench):
    """False where there is no device to check."""
    bench.check("nvidia-smi", nvidia_smi, state="INFO")
    return bench.check("command", carried_libraries) and bench.check("device", device)


def check_all(bench):
    for name in PROGRAMS:
        bench.check(name, program, name)
    for name in PROGRAMS:
        bench.check(f"{name}-cupti", by_cupti, name)
    bench.check("ipc", ipc)
    for how, status in (("exit7", 7), ("_exit3", 3), ("abort", -6), ("kill", -9)):
        bench.check(f"ending-{how}", ending, how, status)
    bench.check("sticky-error", sticky)
    bench.check("run", run_verb)
