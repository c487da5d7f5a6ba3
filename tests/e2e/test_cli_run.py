"""`layoutspy run`: the command it starts ends, is signalled and reads as without it, and is summed up."""

import os
import signal
import subprocess
import time

import pytest

from cli import LAYOUTSPY, OK, OUTPUT, USAGE, layoutspy, one_line
from harness import LIBRARY, ON_STANDIN, app
from synthetic import Trace


@pytest.mark.parametrize("script, status", [
    ("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_run_exits_as_its_command(script, status, tmp_path):
    result = layoutspy("run", "--", "sh", "-c", script, cwd=tmp_path)
    assert "no CUDA call was seen" in one_line(result, status)
    assert layoutspy("run", "-q", "sh", "-c", script, cwd=tmp_path).stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_run_cannot_start(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert "nosuchcommand" in one_line(layoutspy("run", "nosuchcommand", cwd=tmp_path), 127)
    assert "script" in one_line(layoutspy("run", "./script", cwd=tmp_path), 126)


def test_run_without_cuda_names_the_ways_to_be_unseen(tmp_path):
    line = layoutspy("run", "true", cwd=tmp_path).stderr
    for part in ["statically linked", "RTLD_DEEPBIND", "dlsym on a handle", "driver API"]:
        assert part in line
    missing = layoutspy("run", "env", "nosuchcommand", cwd=tmp_path)
    assert missing.returncode == 127 and "no CUDA call" not in missing.stderr


@pytest.mark.parametrize("size, good", [
    ("300K", True), ("1m", True), ("4096", True), ("16777215T", True), ("", True),
    ("0", False), ("x", False), ("1Q", False), ("1GB", False), ("-1", False), (" 1", False),
    ("1.5G", False), ("16777216T", False), ("99999999999999999999", False)])
def test_run_checks_the_spools_size(size, good, tmp_path):
    result = layoutspy("run", "-q", "touch", "ran", cwd=tmp_path, env={"LAYOUTSPY_SPOOL_MAX": size})
    if good:
        assert result.returncode == OK and result.stderr == ""
    else:
        assert "LAYOUTSPY_SPOOL_MAX" in one_line(result, USAGE)
    assert (tmp_path / "ran").exists() == good


@pytest.mark.parametrize("name, value, right", [
    ("CUPTI", "ful", "full, copies or off"), ("STACKS", "OFF", "on or off"), ("PYTHON", "of", "on or off"),
    ("LAYOUTS", "none", "on or off"), ("HOOKS", "-", "on or off"), ("GRAPHS", "node", "whole or nodes"),
    ("CENSUS", "never", "on, exit or off"), ("KERNEL_SAMPLE", "0", "from 1 on"), ("KERNEL_ROWS", "2M", "from 0 on"),
    ("MEASURE", "off", "from 1 on"), ("NVML", "libnvidia-ml.so", "an absolute path")])
def test_run_refuses_settings_that_mean_nothing(name, value, right, tmp_path):
    result = layoutspy("run", "-q", "touch", "ran", cwd=tmp_path, env={f"LAYOUTSPY_{name}": value})
    line = one_line(result, USAGE)
    assert f"LAYOUTSPY_{name}='{value}'" in line and right in line
    assert not (tmp_path / "ran").exists()


def test_run_sums_up_the_other_processes(tmp_path):
    """And not a trace of an earlier run, nor one of another name."""
    with Trace(tmp_path / "t.77.db") as old:
        old.kernel(1)
    (tmp_path / "other.db").touch()
    leaky = app("leaky")
    result = layoutspy("run", "-o", "t.db", "--", ON_STANDIN, "sh", "-c", f"{leaky}; {leaky}; exit 3",
                       cwd=tmp_path, env={"LAYOUTSPY_BUILD": str(LIBRARY.parents[1])})
    assert result.returncode == 3
    lines = [line for line in result.stderr.splitlines() if "beside it: " in line]
    other, = (p.name for p in tmp_path.glob("t.*.db") if p.name != "t.77.db")
    assert len(lines) == 1 and f"beside it: {other}, " in lines[0] and "problem" in lines[0]
    assert f"next: {LAYOUTSPY} report t.db" in result.stderr
    assert "; the program exited\n" in result.stderr


def test_run_tells_how_it_ended(tmp_path):
    result = layoutspy("run", "-o", "t.db", "--", ON_STANDIN, app("leaky"), cwd=tmp_path,
                       env={"LAYOUTSPY_BUILD": str(LIBRARY.parents[1])})
    assert "the program exited with status 0\n" in result.stderr
    assert "1 call " in result.stderr and "never freed)" not in result.stderr


def test_run_refuses_a_trace_that_exists(tmp_path):
    (tmp_path / "old.db").write_text("precious")
    (tmp_path / "left.db.spool").touch()
    for name, there in [("old.db", "old.db"), ("left.db", "left.db.spool")]:
        result = layoutspy("run", "-o", name, "touch", "ran", cwd=tmp_path)
        assert there in one_line(result, OUTPUT)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "old.db").read_text() == "precious"


def test_run_needs_a_folder_that_is_there(tmp_path):
    result = layoutspy("run", "-o", "none/t.db", "touch", "ran", cwd=tmp_path)
    assert "none" in one_line(result, OUTPUT)
    assert not (tmp_path / "ran").exists()


def run_and_print(variable, *args, env=None, cwd=None):
    result = layoutspy("run", "-q", *args, "sh", "-c", f"echo $$; echo ${variable}", env=env,
                       cwd=cwd)
    return result.stdout.splitlines()


def test_run_environment(tmp_path):
    pid, out = run_and_print("LAYOUTSPY_OUT", cwd=tmp_path)
    assert out == f"{tmp_path}/layoutspy.{pid}.db"
    pid, out = run_and_print("LAYOUTSPY_OUT", "-o", "%n-%r-%p-%%.db", env={"SLURM_PROCID": "5"},
                             cwd=tmp_path)
    assert out == f"{tmp_path}/sh-%r-{pid}-%%.db"  # the rank is each process's own
    _, out = run_and_print("LAYOUTSPY_OUT", env={"LAYOUTSPY_OUT": "set.db"}, cwd=tmp_path)
    assert out == f"{tmp_path}/set.db"
    assert run_and_print("LD_PRELOAD", cwd=tmp_path)[1] == str(LIBRARY)
    # An AddressSanitizer build would refuse to start behind another preloaded library.
    env = {"LD_PRELOAD": "libm.so.6", "ASAN_OPTIONS": "verify_asan_link_order=0"}
    assert run_and_print("LD_PRELOAD", env=env, cwd=tmp_path)[1] == f"{LIBRARY}:libm.so.6"


def test_run_leaves_the_rank_to_each_process(tmp_path):
    """A launcher gives ranks to what it starts: the name is theirs to complete, and ours for the rest."""
    out = layoutspy("run", "-q", "-o", str(tmp_path / "50%%-%r.db"), "--", "sh", "-c", 'echo "$LAYOUTSPY_OUT"')
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == str(tmp_path / "50%%-%r.db")


def test_run_keeps_stdin_arguments_and_group(tmp_path):
    result = subprocess.run([LAYOUTSPY, "run", "-q", "--", "sh", "-c",
                             "cat; echo \"$@\"; ps -o pgid= -p $$", "sh", "-o", "a b", "--json"],
                            input="hello\n", text=True, capture_output=True, cwd=tmp_path,
                            timeout=30)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["hello", "-o a b --json"]
    assert int(lines[2]) == os.getpgid(0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_run_passes_signals_on(number, tmp_path):
    script = f"trap 'echo got; exit 5' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    # A shell cannot trap what was ignored when it began, as nohup leaves SIGHUP.
    process = subprocess.Popen([LAYOUTSPY, "run", "-q", "sh", "-c", script], text=True,
                               stdout=subprocess.PIPE, cwd=tmp_path,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == "got\n"
    assert process.wait(timeout=30) == 5
    process.stdout.close()


def test_run_leaves_the_terminals_interrupt_to_the_command(tmp_path):
    script = "trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen([LAYOUTSPY, "run", "-q", "sh", "-c", script], text=True,
                               stdout=subprocess.PIPE, cwd=tmp_path, start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "got\n"
    assert process.wait(timeout=30) == 7
    process.stdout.close()


def test_run_waits_for_the_command_alone(tmp_path):
    start = time.monotonic()
    result = layoutspy("run", "-q", "sh", "-c", "sleep 20 >/dev/null 2>&1 & echo $!", cwd=tmp_path)
    assert time.monotonic() - start < 10
    os.kill(int(result.stdout), signal.SIGKILL)
