"""Where a trace goes: LAYOUTSPY_OUT as a path or a pattern, the default names, what is refused."""

import os

import pytest

from harness import app, fault
from truth import parse_log


def the_pid(harness):
    process, = [p for p in parse_log(harness.log) if p.calls]
    return process.pid


def names(harness):
    return {path.name for path in harness.traces()}


@pytest.mark.parametrize("pattern, expected, more", [
    ("t.db", "t.db", {}),
    ("t.%p.db", "t.{pid}.db", {}),
    ("%n-%p.db", "leaky-{pid}.db", {}),
    ("%h.db", "{host}.db", {}),
    ("r%r.db", "r3.db", {"RANK": "3"}),
    ("r%r.db", "r5.db", {"OMPI_COMM_WORLD_RANK": "5"}),
    ("r%r.db", "r0.db", {}),
    ("100%%.db", "100%.db", {}),
    ("a b 'ä'.db", "a b 'ä'.db", {}),
])
def test_patterns(harness, pattern, expected, more):
    harness.same_with_and_without([app("leaky")], out=pattern, more_env=more)
    expected = expected.format(pid=the_pid(harness), host=os.uname().nodename)
    assert names(harness) == {expected}
    harness.assert_true(harness.folder / expected)


@pytest.mark.parametrize("unset", [None, ""])
def test_default_name_is_in_the_working_directory(harness, unset):
    env = harness.environment(out=None)
    if unset is not None:
        env["LAYOUTSPY_OUT"] = unset
    assert harness.run([app("leaky")], env).status == 0
    harness.settle()
    assert names(harness) == {f"layoutspy.{the_pid(harness)}.db"}


def test_default_name_that_exists(harness):
    """PID 1 of every container has the same name: the second run takes .2, the third .3."""
    command = ["sh", "-c", f"echo precious > layoutspy.$$.db; echo precious > layoutspy.$$.2.db; exec {app('leaky')}"]
    harness.record(command, out=None)
    pid = the_pid(harness)
    assert names(harness) == {f"layoutspy.{pid}.db", f"layoutspy.{pid}.2.db", f"layoutspy.{pid}.3.db"}
    assert (harness.folder / f"layoutspy.{pid}.db").read_text() == "precious\n"
    assert (harness.folder / f"layoutspy.{pid}.2.db").read_text() == "precious\n"
    harness.assert_true(harness.folder / f"layoutspy.{pid}.3.db")


def test_an_empty_file_is_nobodys_trace(harness):
    """One that is older than the run is used; a newer one may be another process's claim, which stays."""
    harness.out.touch()
    os.utime(harness.out, (1, 1))
    harness.record([app("leaky")])
    assert names(harness) == {harness.out.name}
    harness.assert_true()


def test_an_empty_file_that_may_be_claimed(harness):
    harness.record(["sh", "-c", f": >{harness.out}; exec {app('leaky')}"])
    child, = names(harness) - {harness.out.name}
    assert harness.out.stat().st_size == 0
    harness.assert_true(harness.folder / child)


def test_relative_path_is_of_the_start_directory(harness):
    env = dict(harness.environment(), LAYOUTSPY_OUT="sub/rel.db")
    (harness.folder / "sub").mkdir()
    assert harness.run([app("leaky")], env).status == 0
    assert (harness.folder / "sub" / "rel.db").exists()


def test_explicit_path_that_exists_is_refused_in_silence(harness):
    content = b"precious\n"
    harness.out.write_bytes(content)
    harness.same_with_and_without([app("leaky")])
    assert harness.out.read_bytes() == content
    assert sorted(p.name for p in harness.folder.iterdir()) == ["trace.db", "truth.log"]


@pytest.mark.parametrize("bad", ["x%z.db", "x%", "no-such-folder/x.db", "/proc/x.db", "/dev/null", ".", "x" * 5000])
def test_bad_output_is_silence_and_no_recording(harness, bad):
    without = harness.plain([app("leaky")])
    env = harness.environment(out=None)
    env["LAYOUTSPY_OUT"] = bad
    outcome = harness.run([app("leaky")], env)
    assert outcome.same_as(without), repr(outcome)
    assert sorted(p.name for p in harness.folder.iterdir()) == ["truth.log"]


def test_read_only_folder(harness):
    folder = harness.folder / "read-only"
    folder.mkdir()
    target = "/sys/kernel" if os.geteuid() == 0 else folder
    folder.chmod(0o555)
    without = harness.plain([app("leaky")])
    env = dict(harness.environment(), LAYOUTSPY_OUT=f"{target}/t.db")
    assert harness.run([app("leaky")], env).same_as(without)


def test_disabled(harness):
    harness.same_with_and_without([app("leaky")], more_env={"LAYOUTSPY_DISABLE": "1"})
    assert names(harness) == set()


def test_children_write_beside(harness):
    """Also where the parent's own pattern holds no pid."""
    harness.record([fault("forks"), "child-calls"], out="run.db")
    parent, *children = [p for p in parse_log(harness.log) if p.calls]
    assert names(harness) == {"run.db"} | {f"run.{c.pid}.db" for c in children}


def test_two_programs_of_one_run_share_a_path(harness):
    """A shell script that runs two programs: the first has the name, the second one beside it."""
    harness.record(["sh", "-c", f"{app('leaky')}; {app('managed')}; true"])
    first, second = [p for p in parse_log(harness.log) if p.calls]
    assert names(harness) == {"trace.db", f"trace.{second.pid}.db"}
    harness.assert_all_true()
