"""Runs the command line for its tests: helpers, and traces made by hand (synthetic.py)."""

import os
import pty
import subprocess

import pytest

from harness import COMMAND as LAYOUTSPY
from synthetic import Trace

OK, USAGE, INPUT, OUTPUT = 0, 2, 3, 4


def layoutspy(*args, cwd=None, env=None, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LAYOUTSPY_")}
    environment.update(env or {})
    return subprocess.run([LAYOUTSPY, *map(str, args)], cwd=cwd, env=environment, text=True,
                          capture_output=not options, timeout=60, **options)


def one_line(result, status):
    """The run failed as it should: its status, and one line on stderr, which is returned."""
    assert result.returncode == status, result.stderr
    assert result.stderr.startswith("layoutspy")
    assert result.stderr.count("\n") == 1 and result.stderr.endswith("\n"), result.stderr
    return result.stderr


@pytest.fixture
def trace(tmp_path):
    """One of each: a lost buffer, growth, a pool's segment, copies that are and are not pinned."""
    path = tmp_path / "t.db"
    with Trace(path) as t:
        t.alloc("device", 1 << 20, 0, 900_000_000, site="app.c:10 main")
        t.alloc("device", 64, 1_000_000, site="app.c:11 lose")
        for i in range(40):
            t.alloc("pinned", 65536, 10_000_000 + i * 20_000_000, site="app.c:12 loop",
                    api="cudaHostAlloc")
        t.alloc("device", 20 << 20, 5_000_000, site="train.py:6 step",
                modules=("/x/torch/lib/libc10_cuda.so", "/usr/bin/python3"))
        for i in range(20):
            start = 100_000_000 + i * 40_000_000
            t.copy("H2D", 602112, start, 5_000_000, site="train.py:7 step", api="cudaMemcpyAsync")
            t.copy("H2D", 602112, start, 5_000, "pinned", "train.py:8 step", "cudaMemcpyAsync")
        t.kernel(999_000_000)
    return path


@pytest.fixture
def clean_trace(tmp_path):
    path = tmp_path / "clean.db"
    with Trace(path) as t:
        t.alloc("device", 1 << 20, 0, 900_000_000)
        for i in range(20):
            t.copy("H2D", 4096, 100_000_000 + i * 40_000_000, 5_000, "pinned",
                   api="cudaMemcpyAsync")
        t.kernel(999_000_000)
    return path


def start_on_terminal(*args, env=None):
    """The command with a terminal as stdout and stderr, and the terminal's other side."""
    master, slave = pty.openpty()
    process = subprocess.Popen([LAYOUTSPY, *map(str, args)], stdout=slave, stderr=slave,
                               env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(slave)
    return process, master


def on_terminal(*args, env=None):
    """All that the command writes to a terminal."""
    process, master = start_on_terminal(*args, env=env)
    out = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # how Linux says that the other side was closed
            break
        if not part:
            break
        out += part
    os.close(master)
    assert process.wait(timeout=30) == OK
    return out.decode()
