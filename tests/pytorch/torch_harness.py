"""Runs PyTorch scripts on the simulated device, as harness.py runs programs.

A script gets one OpenMP thread (what is tested is what is recorded, and other tests want the cores
too), leaves no bytecode behind, and sees none of the caller's settings of PyTorch or CUDA.
"""

import subprocess
from pathlib import Path

import pytest

from harness import BUILD, Harness

HERE = Path(__file__).resolve().parent
WORKLOADS = HERE / "workloads"
QUIET = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
TIMEOUT = 120


def make_python(*version):
    """The python of the environment with this version of torch (tests/pytorch/env)."""
    made = subprocess.run([str(HERE / "env"), *version], capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip("PyTorch cannot be had here: " + (made.stderr.strip().splitlines() or ["no reason given"])[-1])
    return made.stdout.strip().splitlines()[-1]


class TorchHarness(Harness):
    """`standin`: the build folder of another simulated device than the one beside what is tested."""

    def __init__(self, folder, python, standin=None):
        super().__init__(folder)
        self.python = python
        self.standin = standin
        self.timeout = TIMEOUT

    def environment(self, *arguments, **more):
        env = super().environment(*arguments, **more)
        for name in list(env):
            if name.startswith(("PYTORCH_", "TORCH", "CUDA_", "NCCL_")) and name not in more:
                del env[name]
        if self.standin:
            env["LAYOUTSPY_BUILD"] = str(self.standin)
        return dict(QUIET, **env)

    def library(self):
        """The one of pluggable.c, for the runtime that the script has."""
        return (self.standin or BUILD) / "tests" / "pytorch" / "libpluggable.so"

    def argv(self, script, *arguments):
        """The command line of a script: a name under workloads/, or a path."""
        path = script if isinstance(script, Path) else WORKLOADS / f"{script}.py"
        return [self.python, path, *arguments]

    def go(self, script, *arguments, **how):
        """Records a script; returns its Outcome once the trace is finished."""
        how.setdefault("timeout", self.timeout)
        return self.record(self.argv(script, *arguments), **how)

    def go_plain(self, script, *arguments, more_env=None, **how):
        """The same without us."""
        how.setdefault("timeout", self.timeout)
        how.setdefault("log", False)
        env = self.environment(preload=False, out=None, **(more_env or {}))
        return self.run(self.argv(script, *arguments), env, **how)

    def go_run(self, script, *arguments, more_env=None, timeout=TIMEOUT, **how):
        """The same by `layoutspy run`, which prints its summary after the script's own words."""
        command = [self.program, "run", "-o", self.out, "--", *self.command(self.argv(script, *arguments), **how)]
        env = self.environment(preload=False, out=None, **(more_env or {}))
        outcome = self.run(command, env, timeout=timeout, standin=False)
        self.settle()
        return outcome
