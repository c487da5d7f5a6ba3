"""Runs the unit tests' programs, plain and sanitized: each of their tests is one here.

The names come from the sources, so a test that a program does not run is a failure.
"""

import os
import re
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

from harness import BUILD

HERE = Path(__file__).resolve().parent
SANITIZED = os.environ.get("LAYOUTSPY_ASAN_BUILD")
BUILDS = {"plain": BUILD} | ({"sanitized": Path(SANITIZED)} if SANITIZED else {})


def names():
    for source in sorted(HERE.glob("test_*.c")):
        for name in re.findall(r"^ +(?:cmocka_unit_test\w*|TEST)\((\w+)", source.read_text(), re.M):
            yield source.stem, name


@lru_cache(maxsize=None)
def run(build, program):
    """Each test's line of the program's TAP output, and all it printed."""
    done = subprocess.run([str(BUILDS[build] / "tests" / "unit" / program)], capture_output=True, text=True,
                          env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP"}, timeout=300)
    text = done.stdout + done.stderr
    found = re.finditer(r"^(?:not )?ok \d+ - (\w+).*$", done.stdout, re.M)
    lines = {match[1]: match[0] for match in found}
    return done.returncode, lines, text


@pytest.mark.parametrize("build", list(BUILDS))
@pytest.mark.parametrize("program, name", list(names()))
def test_unit(build, program, name):
    status, lines, text = run(build, program)
    assert name in lines, f"{program} ended with status {status} and did not run it:\n{text[-3000:]}"
    assert lines[name].startswith("ok"), text[-3000:]
    assert "runtime error:" not in text and "Sanitizer" not in text, text[-3000:]


@pytest.mark.parametrize("build", list(BUILDS))
@pytest.mark.parametrize("program", sorted({program for program, _ in names()}))
def test_program_ends_well(build, program):
    status, _, text = run(build, program)
    assert status == 0, text[-3000:]
