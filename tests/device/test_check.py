"""tests/device/check on the simulated device: what is checked on a real GPU must hold here too."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from harness import BUILD, ON_STANDIN

HERE = Path(__file__).resolve().parent
TORCH_ENV = HERE.parent / "pytorch" / "env"
LONG = pytest.mark.skipif(not os.environ.get("LAYOUTSPY_LONG"), reason="long: --long")

# What only hardware has.
MAY_BE_SKIPPED = {"nvidia-smi", "sticky-error", "static-runtime", "kernels", "pytorch"}


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


class Checked:
    """A run of the script: its lines by check, its counts."""

    def __init__(self, carry, out, *arguments, **env):
        began = time.monotonic()
        environment = dict(os.environ, LAYOUTSPY_BUILD=str(BUILD), OUT=str(out),
                           DEVICE_CHECK_RUNNER=f"{ON_STANDIN} --memory 2G", **env)
        done = subprocess.run([HERE / "check", "--carry", carry, *arguments], capture_output=True, text=True,
                              env=environment, timeout=400)
        self.seconds = time.monotonic() - began
        self.status, self.text, self.err = done.returncode, done.stdout, done.stderr
        lines = re.findall(r"^(ok|FAILED|skipped) (\S+): (.*)$", self.text, re.MULTILINE)
        self.state = {name: state for state, name, _ in lines}
        self.said = {name: text for _, name, text in lines}

    def of(self, state):
        return {name for name, its in self.state.items() if its == state}


def holds(checked, most_skipped):
    assert checked.err == ""
    assert not checked.of("FAILED"), checked.text
    assert checked.of("skipped") <= most_skipped, checked.text
    counts = [len(checked.of(state)) for state in ("ok", "FAILED", "skipped")]
    assert checked.text.splitlines()[-1] == "{} passed, {} failed, {} skipped".format(*counts)
    assert checked.status == 0


def test_programs_count_what_the_trace_says(carry, tmp_path):
    checked = Checked(carry, tmp_path / "out", "--only", "c")
    holds(checked, MAY_BE_SKIPPED)
    assert {"memory", "copies", "pools", "streams", "graphs", "oom", "ipc", "run"} <= checked.of("ok")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["log", "traces.tar.gz"]


def test_a_program_that_hangs_ends_nothing_else(carry, tmp_path):
    """Its check fails when the time is over; the others are still accounted for."""
    slow = tmp_path / "carry"
    shutil.copytree(carry, slow)
    (slow / "programs" / "copies").write_text("#!/bin/sh\nexec sleep 300\n")
    checked = Checked(slow, tmp_path / "out", "--only", "c", "--seconds", "5")
    assert checked.status == 1 and checked.seconds < 60
    assert checked.of("FAILED") == {"copies"} and "did not end" in checked.said["copies"]
    assert checked.state["memory"] == "ok"
    assert checked.said["pools"] == "no time left"


def test_calls_that_are_missing_fail(carry, tmp_path):
    """A spool that holds next to nothing: the program counts what the trace lost."""
    small = tmp_path / "carry"
    shutil.copytree(carry, small)
    real, program = small / "programs" / "real", small / "programs" / "small_copies"
    program.rename(real)
    program.write_text(f"#!/bin/sh\nLAYOUTSPY_SPOOL_MAX=300K LAYOUTSPY_COLLECTOR=none exec {real}\n")
    program.chmod(0o755)
    checked = Checked(small, tmp_path / "out", "--only", "c")
    assert checked.status == 1
    assert checked.of("FAILED") == {"small_copies"}, checked.text
    assert "lost: " in checked.said["small_copies"]


def test_nothing_was_prepared(tmp_path):
    done = subprocess.run([HERE / "check", "--carry", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "prepare" in done.stderr


def test_prepare_keeps_what_it_did_not_make(tmp_path):
    (tmp_path / "mine").write_text("mine")
    made = subprocess.run([HERE / "prepare", "--build", BUILD, "--to", tmp_path], capture_output=True, text=True)
    assert made.returncode == 1 and (tmp_path / "mine").read_text() == "mine"


@LONG
def test_pytorch_counts_what_the_trace_says(carry, tmp_path):
    made = subprocess.run([TORCH_ENV], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip("PyTorch cannot be had here")
    checked = Checked(carry, tmp_path / "out", "--only", "torch",
                      DEVICE_CHECK_PYTHON=made.stdout.strip().splitlines()[-1])
    not_here = {"pytorch-compiled", "pytorch-ddp", "pytorch-transformer", "pytorch-async_backend"}
    holds(checked, not_here | {name for name in checked.state if name.startswith("pytorch-cost-")})
    assert {"pytorch-blocks", "pytorch-graphs", "pytorch-copies", "pytorch-blocks-expandable"} <= checked.of("ok")


@LONG
def test_the_carried_command_needs_nothing_of_the_system(tmp_path):
    """As released: every library but the C library's own comes from the folder."""
    folder = tmp_path / "carry"
    prepare("--to", folder)
    listed = subprocess.run(["ldd", folder / "bin" / "layoutspy"], capture_output=True, text=True).stdout
    elsewhere = [line.split()[2] for line in listed.splitlines() if "=>" in line and str(folder) not in line]
    assert elsewhere and all(re.search(r"/lib(c|m|dl|rt|pthread)\.so", path) for path in elsewhere), listed
    assert sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) < 60 << 20
    holds(Checked(folder, tmp_path / "out", "--only", "c"), MAY_BE_SKIPPED)
