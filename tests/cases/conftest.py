"""What the tests of cases share: a Case, which records a script or a program and judges its report.

A case is what people really met, scaled down: a script cNN_name.py beside its test, or a program
under tests/apps. Its test checks what is found, how much and where, and that nothing else is.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "pytorch"))

from case import Case  # noqa: E402
from torch_harness import make_python  # noqa: E402


@pytest.fixture(scope="session")
def torch_python():
    return make_python()


@pytest.fixture
def case(tmp_path, torch_python):
    """For scripts of this folder, and of tests/pytorch/workloads."""
    return Case(tmp_path, torch_python)


@pytest.fixture
def program(tmp_path):
    """For programs of tests/apps: needs no PyTorch."""
    return Case(tmp_path, None)
