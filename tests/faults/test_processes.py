"""fork, vfork, posix_spawn, exec: children as without us, each with a trace of its own if it calls."""

import re
import subprocess

import pytest

from harness import app, fault
from truth import parse_log


def recorded_programs(harness):
    return [p for p in parse_log(harness.log) if p.calls]


@pytest.mark.parametrize("way, processes", [
    ("child-calls", 4), ("child-plain", 1), ("workers", 3), ("vfork", 2), ("spawn", 2), ("exec", 2),
    ("exec-bare", 1), ("calls", 1)])
@pytest.mark.parametrize("out", ["trace.db", "t.%p.db", None])
def test_children(harness, way, processes, out):
    harness.same_with_and_without([fault("forks"), way], out=out)
    assert len(recorded_programs(harness)) == processes
    assert len(harness.traces()) == processes, harness.traces()
    harness.assert_all_true()


def test_fork_storm_with_threads(harness):
    outcome = harness.same_with_and_without([fault("forks"), "storm"])
    assert outcome.status == 0
    assert len(harness.traces()) == 1 + 20  # every third child calls CUDA
    harness.assert_all_true()


def test_child_is_refused_and_its_trace_says_so(harness):
    harness.record([fault("forks"), "child-calls"])
    parent, *children = recorded_programs(harness)
    for child in children:
        trace = harness.trace(harness.folder / f"trace.{child.pid}.db")
        assert [row["status"] for row in trace.rows("SELECT status FROM call")] == [3, 3, 3]
        assert trace.pid() == child.pid
    assert harness.trace().pid() == parent.pid


def test_default_names_of_children(harness):
    harness.record([fault("forks"), "child-calls"], out=None)
    parent, *children = recorded_programs(harness)
    names = {path.name for path in harness.traces()}
    assert names == {f"layoutspy.{parent.pid}.db"} | {f"layoutspy.{parent.pid}.{c.pid}.db" for c in children} or \
        names == {f"layoutspy.{p.pid}.db" for p in [parent] + children}, names


def test_exec_in_place_takes_the_next_name(harness):
    harness.record([fault("forks"), "exec"], out=None)
    before, after = recorded_programs(harness)
    assert before.pid == after.pid
    assert {path.name for path in harness.traces()} == {f"layoutspy.{before.pid}.db", f"layoutspy.{before.pid}.2.db"}


def test_shells_and_tools_around_a_program(harness):
    """Only the process that calls CUDA leaves something, in pipelines and substitutions too."""
    script = f"x=$(echo a | sed s/a/b/); {app('leaky')} | cat; ls >/dev/null; echo $x"
    outcome = harness.same_with_and_without(["bash", "-c", script])
    assert outcome.out.endswith("b\n")
    assert harness.traces() == [harness.out]
    harness.assert_true()


def test_pipe_ends_with_the_program(harness):
    """A collector that held the pipe would keep `program | cat` from ending with the program."""
    import time
    start = time.monotonic()
    harness.run(["bash", "-c", f"{app('small_copies')} | cat"], log=False)
    without = time.monotonic()
    harness.run(["bash", "-c", f"{app('small_copies')} | cat"], harness.environment(), log=False)
    assert time.monotonic() - without < (without - start) + 3
    harness.settle()


def test_no_child_of_ours_is_met_by_wait(harness):
    """forks.c asks waitpid(-1) at its end; a shell's `wait -n` and a SIGCHLD handler are asked here."""
    script = (f"trap 'echo child' CHLD; {app('leaky')} >/dev/null & wait $!; echo status $?; "
              "jobs; trap - CHLD; wait; echo end")
    outcome = harness.same_with_and_without(["bash", "-c", script])
    assert re.fullmatch(r"(child\n)?status 0\n(child\n)?end\n", outcome.out), outcome.out


# ---- namespaces -------------------------------------------------------------------------------


def test_without_proc(harness):
    """/proc is hidden from the program and its collector: what it would have said is not known, no more."""
    private = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if subprocess.run(private + ["true"], capture_output=True).returncode:
        pytest.skip("no mount namespace may be made here")
    outcome = harness.record(private + [fault("burst"), "2", "0.7"])
    assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", "")
    harness.assert_true()
    assert harness.trace().lost() == {}
    assert harness.trace().meta("ended") != "exec"


@pytest.mark.parametrize("parent", [[], ["unshare", "--pid", "--fork"]], ids=["usual-parent", "parent-is-1-too"])
def test_child_that_is_process_1_of_its_namespace(harness, parent):
    """Its pid tells nothing then, least of all where its parent has the same one."""
    outcome = harness.run(parent + [fault("pid_space")], harness.environment())
    if outcome.status == 77 or "unshare failed" in outcome.err:
        pytest.skip("no pid namespace may be made here")
    assert (outcome.status, outcome.out, outcome.err) == (0, "child 3\n", "")
    assert len(harness.traces()) == 2
    for path in harness.traces():
        # From here nobody can tell whether a process of another namespace still runs.
        taken = harness.layoutspy("info", path)
        assert taken.status == 0 and len(taken.err.splitlines()) <= 1, repr(taken)
        trace = harness.trace(path)
        mine, other, calls = ("parent", "child", 6) if path == harness.out else ("child", "parent", 3)
        assert (trace.pid() == 1) == (mine == "child" or bool(parent))
        assert trace.one("SELECT COUNT(*) FROM call") == calls
        assert trace.one("SELECT COUNT(*) FROM call WHERE stack IS NULL") == 0
        functions = {row[0] for row in trace.rows("SELECT function FROM stack_frame")}
        assert f"calls_of_the_{mine}" in functions and f"calls_of_the_{other}" not in functions
