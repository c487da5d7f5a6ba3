"""The interpreters that the tests of this folder run with, by name: "3.11", "3.13t" for a
free-threaded build, "system" for /usr/bin/python3."""

import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest

SUPPORTED = ["system", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14"]
FREE_THREADED = ["3.13t", "3.14t"]
UNKNOWN = ["3.7", "3.8", "3.15"]

_ASK = ("import sys, sysconfig; "
        "print('%d.%d%s' % (sys.version_info[0], sys.version_info[1], "
        "'t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''))")


@lru_cache(maxsize=None)
def _pyenv_versions():
    if not shutil.which("pyenv"):
        return None
    done = subprocess.run(["pyenv", "root"], capture_output=True, text=True)
    return Path(done.stdout.strip()) / "versions" if done.returncode == 0 else None


def _candidates(name):
    if name == "system":
        yield Path("/usr/bin/python3")
        return
    versions = _pyenv_versions()
    if versions:
        number, free = name.rstrip("t"), "t" if name.endswith("t") else ""
        yield from sorted(versions.glob(f"{number}.*{free}/bin/python{name}"), reverse=True)
    for folder in os.environ.get("PATH", "").split(":"):
        yield Path(folder) / f"python{name}"


@lru_cache(maxsize=None)
def find(name):
    """The interpreter's path, or None."""
    for path in _candidates(name):
        if not os.access(path, os.X_OK):
            continue
        done = subprocess.run([str(path), "-c", _ASK], capture_output=True, text=True)
        if done.returncode == 0 and (done.stdout.strip() == name or name == "system"):
            return str(path)
    return None


def need(name):
    path = find(name)
    if not path:
        pytest.skip(f"no Python {name} here")
    return path


@lru_cache(maxsize=None)
def ask(path, expression):
    """What an interpreter says of itself."""
    done = subprocess.run([path, "-c", f"import sys, sysconfig, os; print({expression})"], capture_output=True,
                          text=True, check=True)
    return done.stdout.strip()
