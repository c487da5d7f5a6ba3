"""The real PyTorch on the real device: a training loop that counts for itself (train.py), PyTorch's own
view of its memory at ten points (tests/pytorch/snapshot.py), and what recording costs there
(tests/bench/torch_cost.py)."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

from c_checks import lost
from checks import HERE, ROOT, Failed, Skipped

SCRIPT = HERE / "train.py"
COST = ROOT / "tests" / "bench" / "torch_cost.py"
QUIET = {"PYTHONDONTWRITEBYTECODE": "1", "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
PROBE = "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"
ELSEWHERE = ["/opt/conda/bin", "/opt/venv/bin", "~/miniconda3/bin", "~/anaconda3/bin", "~/miniforge3/bin"]
WORKLOADS = {"graphs": {}, "compiled": {}, "ddp": {}, "transformer": {},
             "async_backend": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}}
ON_ANY_DEVICE = ["graphs"]  # of WORKLOADS, which tests/pytorch runs on the simulated one anyway
ALLOCATORS = {"": {}, "-expandable": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}


def pythons():
    """Where a python with torch may be, likeliest first."""
    told = os.environ.get("DEVICE_CHECK_PYTHON")
    if told:
        return [os.path.abspath(told)]
    found = [sys.executable, shutil.which("python3"), shutil.which("python")]
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        found.append(os.environ.get(name) and os.path.join(os.environ[name], "bin", "python3"))
    folders = [os.path.expanduser(folder) for folder in ELSEWHERE] + [str(p) for p in Path("/opt").glob("*/bin")]
    found += [os.path.join(folder, "python3") for folder in folders]
    return list(dict.fromkeys(p for p in found if p and os.access(p, os.X_OK)))


def find_torch(bench):
    """The first python whose torch sees a device, and what it said. Looked for once."""
    if "torch" not in bench.found:
        try:
            bench.found["torch"] = look_for_torch(bench)
        except (Failed, Skipped) as reason:
            bench.found["torch"] = reason
    if isinstance(bench.found["torch"], Exception):
        raise Skipped(str(bench.found["torch"]))
    return bench.found["torch"]


def look_for_torch(bench):
    said = []
    for python in pythons():
        looked = bench.run([python, "-c", "import importlib.util as u; print(bool(u.find_spec('torch')))"],
                           runner=False)
        if looked.out.strip() != "True":
            continue
        outcome = bench.run([python, "-c", PROBE], seconds=90)
        if outcome.status == 0 and outcome.out.split()[-1:] == ["True"]:
            return python, outcome.out.strip()
        said.append(f"{python}: {outcome.out.strip() or outcome.err.strip()[-200:]}")
    raise Skipped("; ".join(["no torch here"] + said))


class Training:
    """train.py, without us and with us."""

    def __init__(self, bench, python, allocator):
        env = dict(QUIET, **ALLOCATORS[allocator])
        self.trace = bench.new_trace(f"train{allocator}")
        self.results = bench.folder / f"train{allocator}.json"
        argv = [python, SCRIPT, self.results] + ([] if bench.runner else ["--values"])
        self.without = bench.run(argv, seconds=100, env=env)
        self.outcome = bench.run(argv, seconds=100, env=env, trace=self.trace)
        bench.settle()


def line_of(marker):
    lines = [n for n, line in enumerate(SCRIPT.read_text().splitlines(), 1) if line.endswith(f"# SITE: {marker}")]
    assert len(lines) == 1, f"{len(lines)} lines marked {marker}"
    return lines[0]


def same_output(bench, training):
    outcome, without = training.outcome, training.without
    if without.status != 0:
        raise Failed(f"the loop itself fails here, also without us: {without}")
    if (outcome.status, outcome.out) != (without.status, without.out):
        raise Failed(f"with layoutspy: {outcome} | without: {without}")
    wrong = lost(bench, training.trace)
    if wrong:
        raise Failed("\n".join(wrong))
    return f"{outcome.out.splitlines()[0]}; {without.seconds:.1f} s without us, {outcome.seconds:.1f} with"


def copies(bench, training):
    """Each copy that the loop counted, at its line; and no other copy of host memory anywhere."""
    counted = json.loads(training.results.read_text())["copies"]
    rows = bench.sql(training.trace,
                     "SELECT site, direction || ' ' || src_kind || ' ' || dst_kind AS what, bytes, COUNT(*) AS n"
                     " FROM all_copy WHERE status = 0 AND direction IN ('H2D', 'D2H') GROUP BY 1, 2, 3")
    want = {(line_of(marker), what, int(size)): n for marker, kinds in counted.items()
            for what, sizes in kinds.items() for size, n in sizes.items()}
    found = {}
    for row in rows:
        at = re.search(rf"{SCRIPT.name}:(\d+) ", row["site"])
        key = (int(at.group(1)) if at else row["site"], row["what"], row["bytes"])
        found[key] = found.get(key, 0) + row["n"]
    wrong = [f"{key}: counted {want.get(key, 0)}, the trace says {found.get(key, 0)}"
             for key in {**want, **found} if want.get(key) != found.get(key)]
    if wrong:
        raise Failed("\n".join(wrong[:8]))
    return f"{sum(want.values())} copies at {len(counted)} lines, each at its own"


def kept_lines(bench, training):
    """The tensors that were kept: each one's block is live and names the line."""
    kept, line = json.loads(training.results.read_text())["kept"], line_of("kept")
    wrong = []
    for address, size in kept:
        rows = bench.sql(training.trace, f"SELECT size, site, end_ns FROM block_lifetime WHERE address = {address}"
                                         " ORDER BY start_ns DESC LIMIT 1")
        row = rows[0] if rows else None
        if not row or row["size"] != (size + 511) // 512 * 512 or f"{SCRIPT.name}:{line} " not in row["site"]:
            wrong.append(f"{address:#x} of {size} bytes: {row}")
    if wrong:
        raise Failed("\n".join(wrong[:5]))
    return f"{len(kept)} blocks at line {line}"


def blocks(bench, training):
    """Block by block, segment by segment, and the totals, at every point."""
    try:
        sys.path.insert(0, str(ROOT / "tests" / "pytorch"))
        from snapshot import compare, load
    except ImportError as missing:
        raise Skipped(f"this python cannot read traces itself: {missing}") from None
    moments = load(f"{training.results}.moments")
    wrong = compare(training.trace, moments)
    if wrong:
        raise Failed("\n".join([f"{len(wrong)} differences"] + wrong[:6]))
    segments = sum(len(m["segments"]) for m in moments)
    return (f"{len(moments)} points, {segments} segments, "
            f"{sum(len(s['blocks']) for m in moments for s in m['segments'])} blocks equal PyTorch's")


def audit(bench, training):
    wrong = audit_breaks(bench, training.trace)
    if wrong:
        raise Failed("\n".join(wrong))
    reports = bench.sql(training.trace, "SELECT SUM(reports) AS n FROM block_audit")[0]["n"]
    layers = bench.sql(training.trace, "SELECT layer, state FROM coverage ORDER BY layer")
    seen = ", ".join(f"{layer['layer']} {layer['state']}" for layer in layers)
    return f"{reports} reports, no sum breaks; seen: {seen}"


def audit_breaks(bench, trace):
    rows = bench.sql(trace, "SELECT * FROM block_audit WHERE allocated_breaks > 0 OR reserved_breaks > 0")
    return [f"sums break: {row}" for row in rows]


def workload(bench, python, name):
    """One of tests/pytorch/workloads: prints what it prints without us; nothing is lost, no sum breaks."""
    if bench.runner and name not in ON_ANY_DEVICE:
        raise Skipped("tests/pytorch/test_workloads.py runs it on this device")
    trace, env = bench.new_trace(f"workload-{name}"), dict(QUIET, **WORKLOADS[name])
    argv = [python, ROOT / "tests" / "pytorch" / "workloads" / f"{name}.py"]
    without = bench.run(argv, seconds=90, env=env)
    outcome = bench.run(argv, seconds=90, env=env, trace=trace)
    if without.status != 0:
        raise Skipped(f"fails here also without us: {without}")
    if (outcome.status, outcome.out) != (without.status, without.out):
        raise Failed(f"with layoutspy: {outcome} | without: {without}")
    bench.settle()
    wrong = lost(bench, trace) + audit_breaks(bench, trace)
    if wrong:
        raise Failed("\n".join(wrong))
    calls = bench.sql(trace, "SELECT COUNT(*) AS n FROM call")[0]["n"]
    return f"{outcome.out.strip()}; {calls} calls, {without.seconds:.1f} s without us, {outcome.seconds:.1f} with"


def cost(bench, python, loop):
    """For the reader: what is too much, no check can tell from one run."""
    if bench.runner:
        raise Skipped("a device that only pretends is no measure (tests/bench/run)")
    trace = bench.folder / f"cost-{loop}.trace"  # large, and nobody asks it
    outcome = bench.run([python, COST, "--loop", loop], seconds=90, env=QUIET, trace=trace)
    if outcome.status != 0:
        raise Failed(repr(outcome))
    return " ".join(outcome.out.split()[1:])


def look(bench):
    return "{1}, {0}".format(*find_torch(bench))


def has_torch(bench):
    """Says that a part is skipped where it is not there."""
    try:
        return bool(find_torch(bench))
    except Skipped as reason:
        bench.say("SKIP", bench.part, reason)
        return False


def check_training(bench):
    if not has_torch(bench):
        return
    python = find_torch(bench)[0]
    for allocator in ALLOCATORS:
        made = []

        def make(bench, allocator=allocator, made=made):
            made.append(Training(bench, python, allocator))
            return same_output(bench, made[0])

        if not bench.check(f"pytorch-output{allocator}", make):
            continue
        for name, check in (("copies", copies), ("kept", kept_lines), ("blocks", blocks), ("audit", audit)):
            bench.check(f"pytorch-{name}{allocator}", check, made[0])


def check_workloads(bench):
    if not has_torch(bench):
        return
    python = find_torch(bench)[0]
    for name in WORKLOADS:
        bench.check(f"pytorch-{name}", workload, python, name)
    for loop in ("cnn", "transformer", "resnet", "inference"):
        bench.check(f"pytorch-cost-{loop}", cost, python, loop, state="INFO")
