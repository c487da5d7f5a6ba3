"""The same workloads with PyTorch 2.4 on CUDA 12's libraries, in the long run only (LAYOUTSPY_LONG=1):
it wants another wheel and a simulated device of that version. Its expandable segments get their
memory behind dlsym on a handle, where a preload does not see it: they are left out here."""

import os
import shutil
import subprocess

import pytest

import test_iterations
from harness import ROOT
from test_workloads import WORKLOADS, argv, check, run_how
from torch_harness import TorchHarness, make_python

VERSION = "2.4.1"
NAMES = [name for name in WORKLOADS if name != "expandable"]

pytestmark = pytest.mark.skipif(os.environ.get("LAYOUTSPY_LONG") != "1", reason="long: --long")


@pytest.fixture(scope="session")
def cuda12(tmp_path_factory):
    """A build folder with the simulated device of CUDA 12; what is tested is that of the usual build."""
    if not shutil.which("meson") or not shutil.which("ninja"):
        pytest.skip("no meson or ninja")
    build = tmp_path_factory.mktemp("cuda12")
    subprocess.run(["meson", "setup", str(build), str(ROOT), "-Dstandin_major=12"], check=True, capture_output=True)
    targets = subprocess.run(["ninja", "-C", str(build), "-t", "targets", "all"], check=True, capture_output=True,
                             text=True).stdout
    libraries = [line.split(":")[0] for line in targets.splitlines()
                 if line.startswith(("tests/standin/lib", "tests/pytorch/lib")) and "LINKER" in line]
    subprocess.run(["ninja", "-C", str(build), *libraries], check=True, capture_output=True)
    return build


@pytest.fixture(scope="session")
def python():
    return make_python(VERSION)


@pytest.fixture
def torch(tmp_path, python, cuda12):
    return TorchHarness(tmp_path, python, standin=cuda12)


@pytest.mark.parametrize("name", NAMES)
def test_workload(torch, name):
    check(torch, name, torch.go(*argv(torch, name), **run_how(name)))


def test_nvtx_ranges(torch):
    """This PyTorch has its NVTX from a library of CUDA's, not from the headers."""
    test_iterations.test_nvtx_ranges_of_torch(torch)
