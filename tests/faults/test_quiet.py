"""What a recorded call must not do: system calls, a change of errno, a stack left out."""

import shutil
import subprocess

import pytest

from harness import FAULTS, LIBRARY, fault

NO_COLLECTOR = {"LAYOUTSPY_COLLECTOR": "none"}


def test_no_system_call_on_the_usual_path(harness):
    if not shutil.which("strace"):
        pytest.skip("no strace")
    told = harness.folder / "strace"
    env = harness.environment(preload=False, **NO_COLLECTOR)
    command = ["strace", "-f", "-qq", "-o", told, "-E", f"LD_PRELOAD={LIBRARY}", fault("quiet")]
    done = subprocess.run(command, env=env, cwd=harness.folder, capture_output=True, timeout=60)
    if done.returncode and b"ptrace" in done.stderr:
        pytest.skip("no process may be traced here")
    assert (done.returncode, done.stdout) == (0, b"done\n"), done
    lines = told.read_text().splitlines()
    marks = [n for n, line in enumerate(lines) if "personality(" in line]
    assert len(marks) == 3
    assert lines[marks[1] + 1:marks[2]] == []
    assert harness.layoutspy("info", harness.out).status == 0
    trace = harness.trace()
    each = 6 + 1  # the runtime passes the copy on
    assert (trace.one("SELECT COUNT(*) FROM call"), trace.lost()) == (6200 * each, {})


def test_errno_where_a_kernel_cannot_be_told(harness):
    spool = harness.folder / "trace.db.spool"
    command = [fault("kernel_errno"), spool]
    without = harness.run(command, harness.environment(preload=False, out=None), standin=False)
    outcome = harness.run(command, harness.environment(**NO_COLLECTOR), standin=False)
    assert outcome.same_as(without) and outcome.out == "changed 0\n", repr(outcome)
    assert not spool.exists()  # it was made, and removed: else this test tests nothing
    assert harness.out.exists()


@pytest.mark.parametrize("cycles, stacks", [(3000, 40)])
def test_every_call_keeps_its_stack(harness, cycles, stacks):
    """A plugin that is loaded anew has new stacks each time: those of the past may not use up the room."""
    harness.same_with_and_without([fault("reload"), str(FAULTS / "libreload_plugin.so"), cycles, stacks], standin=False)
    trace = harness.trace()
    assert trace.one("SELECT COUNT(*) FROM call") == cycles * stacks
    assert trace.one("SELECT COUNT(*) FROM call WHERE stack IS NULL") == 0
    assert trace.lost() == {}


def test_names_of_threads(harness):
    outcome = harness.same_with_and_without([fault("thread_names")])
    longest = outcome.out.strip()
    assert len(longest) == 15
    names = [row[0] for row in harness.trace().rows("SELECT name FROM thread ORDER BY id")]
    assert names == [longest[:n] for n in range(1, 16)]
