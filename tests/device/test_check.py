"""tests/device/check on the simulated device: what is checked on a real GPU must hold here too, and what
is wrong must fail."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from harness import BUILD, ON_STANDIN

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TORCH_ENV = HERE.parent / "pytorch" / "env"
LONG = pytest.mark.skipif(not os.environ.get("LAYOUTSPY_LONG"), reason="long: --long")
NO_TORCH = "/usr/bin/true"  # in the place of a python: PyTorch's part of a check is skipped

# What only hardware has.
MAY_BE_SKIPPED = {"nvidia-smi", "sticky-error", "kernels", "kernels-cupti"}
STATES = ("PASS", "FAIL", "SKIP", "INFO")


def prepare(*arguments):
    made = subprocess.run([HERE / "prepare", *arguments], capture_output=True, text=True)
    if made.returncode != 0 and "no CUDA toolkit" in made.stderr:
        pytest.skip(made.stderr.strip())
    assert made.returncode == 0, made.stdout[-1000:] + made.stderr[-2000:]
    return made.stdout


@pytest.fixture(scope="module")
def carry(tmp_path_factory):
    folder = tmp_path_factory.mktemp("device") / "carry"
    prepare("--build", BUILD, "--to", folder)
    return folder


@pytest.fixture(scope="module")
def torch_python():
    made = subprocess.run([TORCH_ENV], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip("PyTorch cannot be had here")
    return made.stdout.strip().splitlines()[-1]


def environment(out, **env):
    return dict(os.environ, LAYOUTSPY_BUILD=str(BUILD), OUT=str(out), DEVICE_CHECK_SMALL="1",
                DEVICE_CHECK_RUNNER=f"{ON_STANDIN} --memory 2G", **{k: str(v) for k, v in env.items()})


class Checked:
    """A run of the script: its lines by check, its counts."""

    def __init__(self, carry, out, *arguments, python=NO_TORCH, **env):
        began = time.monotonic()
        done = subprocess.run([HERE / "check", "--carry", carry, *arguments], capture_output=True, text=True,
                              env=environment(out, DEVICE_CHECK_PYTHON=python, **env), timeout=500)
        self.seconds = time.monotonic() - began
        self.python = python
        self.status, self.text, self.err = done.returncode, done.stdout, done.stderr
        lines = re.findall(rf"^({'|'.join(STATES)}) ((?:FACT )?\S+): (.*)$", self.text, re.MULTILINE)
        self.state = {name: state for state, name, _ in lines}
        self.said = {name: text for _, name, text in lines}
        self.results = json.loads((Path(out) / "results.json").read_text())
        self.summary = (Path(out) / "summary.txt").read_text()

    def of(self, state):
        return {name for name, its in self.state.items() if its == state}


def holds(checked, most_skipped):
    assert checked.err == ""
    assert not checked.of("FAIL"), checked.text
    assert checked.of("SKIP") <= most_skipped | ({"pytorch"} if checked.python == NO_TORCH else set()), checked.text
    counts = checked.results["counts"]
    assert checked.text.splitlines()[-1] == "{PASS} passed, {FAIL} failed, {SKIP} skipped, {INFO} told".format(**counts)
    assert [(one["state"], one["name"]) for one in checked.results["results"]] == [
        tuple(line.split(": ")[0].split(" ", 1)) for line in checked.text.splitlines()[:-1]]
    assert all(f"{state} {name}: " in checked.summary for name, state in checked.state.items())
    assert checked.status == 0


def test_programs_count_what_the_trace_says(carry, tmp_path):
    checked = Checked(carry, tmp_path / "out", "--part", "programs")
    holds(checked, MAY_BE_SKIPPED)
    assert {"memory", "copies", "pools", "streams", "graphs", "oom", "ipc", "run", "copies-cupti", "graphs-cupti"} <= (
        checked.of("PASS"))
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["log", "results.json", "summary.txt",
                                                                    "traces.tar.gz"]


def link_static(carry, folder):
    """NVIDIA's static runtime does not start on the simulated driver; the simulated one takes its place."""
    static = folder / "carry"
    shutil.copytree(carry, static)
    standin = BUILD / "tests" / "standin"
    subprocess.run(["gcc", "-std=gnu11", "-g", "-D_GNU_SOURCE", "-I", HERE, "-I", ROOT / "include", "-I",
                    ROOT / "tests" / "apps", "-isystem", os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/include",
                    "-include", HERE / "count.h", HERE / "programs" / "memory.c", "-o", static / "programs" / "static",
                    standin / "libcudart_static.a", f"-L{standin}", "-lstandin", "-pthread", "-ldl"], check=True)
    return static


def test_facts_and_other_ways(carry, tmp_path):
    checked = Checked(link_static(carry, tmp_path), tmp_path / "out", "--part", "facts,ways")
    holds(checked, {"nvidia-smi", "facts-calls", "facts-subscribers", "facts-graphs", "facts-library", "facts-late"}
          if "missing probe" in (carry / "needs").read_text() else {"nvidia-smi"})
    assert {"static-runtime", "driver-functions", "nvml"} <= checked.of("PASS")
    if checked.state["facts-calls"] == "PASS":
        assert checked.said["FACT nested-driver-call-has-runtime-id"] == "7 of 7"  # as the simulated one has it
        assert "cudaLaunchKernel" in checked.said["FACT callbacks-of-cublasSgemm"]
        assert checked.said["FACT v1-subscribe-again"] == "status 39"


def test_costs_are_told(carry, tmp_path):
    checked = Checked(carry, tmp_path / "out", "--part", "cost", "--part", "stop")
    holds(checked, {"nvidia-smi"} | {f"{what}-torch{more}" for what in ("cost", "stop") for more in ("", "-complete")})
    assert checked.state["cost-c"] == "INFO" and {"cost-c-complete", "stop-c"} <= checked.of("PASS")
    figures = {one["name"]: one["figures"] for one in checked.results["results"]}
    assert {"tiny full", "gemm hooks"} <= set(figures["cost-c"])
    assert figures["stop-c"]["stopped"]["ratio"] > 0


def test_a_program_that_hangs_ends_nothing_else(carry, tmp_path):
    """Its check fails when the time is over; the others are still accounted for."""
    slow = tmp_path / "carry"
    shutil.copytree(carry, slow)
    (slow / "programs" / "copies").write_text("#!/bin/sh\nexec sleep 300\n")
    checked = Checked(slow, tmp_path / "out", "--part", "programs", "--seconds", "6")
    assert checked.status == 1 and checked.seconds < 60
    assert checked.of("FAIL") == {"copies"} and "did not end" in checked.said["copies"]
    assert checked.state["memory"] == "PASS"
    assert checked.said["pools"] == "no time left"
    assert "failed: copies" in checked.summary


def test_stopped_from_outside(carry, tmp_path):
    """What was found by then is told, and nothing is left running."""
    slow, mark = tmp_path / "carry", tmp_path / "mark"
    shutil.copytree(carry, slow)
    (slow / "programs" / "copies").write_text(f"#!/bin/sh\necho $$ > {mark}\nexec sleep 300\n")
    process = subprocess.Popen([HERE / "check", "--carry", slow, "--part", "programs"],
                               env=environment(tmp_path / "out"), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (mark.exists() and mark.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "") and "FAIL check: stopped from outside" in out
    assert "PASS memory: " in (tmp_path / "out" / "summary.txt").read_text()
    with pytest.raises(ProcessLookupError):
        os.kill(int(mark.read_text()), 0)


def test_calls_that_are_missing_fail(carry, tmp_path):
    """A spool that holds next to nothing: the program counts what the trace lost."""
    small = tmp_path / "carry"
    shutil.copytree(carry, small)
    real, program = small / "programs" / "real", small / "programs" / "small_copies"
    program.rename(real)
    program.write_text(f"#!/bin/sh\nLAYOUTSPY_SPOOL_MAX=300K LAYOUTSPY_COLLECTOR=none exec {real}\n")
    program.chmod(0o755)
    for other in (small / "programs").iterdir():
        if other.name not in ("device", "real", "small_copies", "pools") and ".so" not in other.name:
            other.unlink()  # their checks are skipped
    checked = Checked(small, tmp_path / "out", "--part", "programs")
    assert checked.status == 1
    assert checked.of("FAIL") == {"small_copies", "small_copies-cupti"}, checked.text
    assert {"pools", "pools-cupti"} <= checked.of("PASS")
    assert "lost: " in checked.said["small_copies"]


@pytest.mark.parametrize("arguments, said", [([], "prepare"), (["--part", "nothing"], "no part nothing")])
def test_wrong_usage(tmp_path, arguments, said):
    done = subprocess.run([HERE / "check", "--carry", tmp_path, *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr


def test_prepare_keeps_what_it_did_not_make(tmp_path):
    (tmp_path / "mine").write_text("mine")
    made = subprocess.run([HERE / "prepare", "--build", BUILD, "--to", tmp_path], capture_output=True, text=True)
    assert made.returncode == 1 and (tmp_path / "mine").read_text() == "mine"


@LONG
def test_the_gpus_work_is_what_the_profiler_says(carry, tmp_path, torch_python):
    checked = Checked(carry, tmp_path / "out", "--part", "profiler", python=torch_python)
    holds(checked, {"nvidia-smi"})
    for name in ("cnn", "transformer", "inference", "loader"):
        for what in ("", "-stepped-aside", "-kernels", "-times", "-copies", "-memory", "-calls"):
            assert checked.state[f"profiler-{name}{what}"] == "PASS"


@LONG
def test_records_that_are_missing_fail(carry, tmp_path, torch_python):
    """CUPTI drops every 5th record, of ours and of torch.profiler's: others of each."""
    checked = Checked(carry, tmp_path / "out", "--part", "profiler", python=torch_python, STANDIN_CUPTI_FAULT="drop")
    assert checked.status == 1 and "profiler-cnn-kernels" in checked.of("FAIL")
    assert checked.state["profiler-cnn-memory"] == "PASS"


@LONG
def test_memory_runs_out(carry, tmp_path, torch_python):
    checked = Checked(carry, tmp_path / "out", "--part", "oom", python=torch_python)
    holds(checked, {"nvidia-smi"})
    assert {f"oom-{what}{how}" for what in ("exception", "event", "census", "told") for how in ("", "-expandable")} <= (
        checked.of("PASS"))


@LONG
def test_costs_of_pytorch(carry, tmp_path, torch_python):
    checked = Checked(carry, tmp_path / "out", "--part", "cost,stop", python=torch_python)
    holds(checked, {"nvidia-smi"})
    assert {"cost-torch-complete", "stop-torch"} <= checked.of("PASS")


@LONG
def test_pytorch_counts_what_the_trace_says(carry, tmp_path, torch_python):
    checked = Checked(carry, tmp_path / "out", "--part", "pytorch,workloads", python=torch_python)
    not_here = {"nvidia-smi", "pytorch-compiled", "pytorch-ddp", "pytorch-transformer", "pytorch-async_backend"}
    holds(checked, not_here | {name for name in checked.state if name.startswith("pytorch-cost-")})
    assert {"pytorch-blocks", "pytorch-graphs", "pytorch-copies", "pytorch-blocks-expandable"} <= checked.of("PASS")


@LONG
def test_the_carried_command_needs_nothing_of_the_system(tmp_path):
    """As released: every library but the C library's own comes from the folder."""
    folder = tmp_path / "carry"
    prepare("--to", folder)
    listed = subprocess.run(["ldd", folder / "bin" / "layoutspy"], capture_output=True, text=True).stdout
    elsewhere = [line.split()[2] for line in listed.splitlines() if "=>" in line and str(folder) not in line]
    assert elsewhere and all(re.search(r"/lib(c|m|dl|rt|pthread)\.so", path) for path in elsewhere), listed
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 60 << 20
    holds(Checked(folder, tmp_path / "out", "--part", "programs"), MAY_BE_SKIPPED)
