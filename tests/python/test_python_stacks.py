"""Python stacks in the trace equal those that Python itself sees, on every interpreter that is
installed; and whatever an interpreter does to its threads, its processes and itself is as without
us. Versions that are not here are skipped by name."""

import json

from pathlib import Path

import pytest

from harness import BUILD
from pythons import FREE_THREADED, SUPPORTED, UNKNOWN, ask, need

HERE = Path(__file__).resolve().parent
DEPTH = 128  # frames that are kept of a stack, the innermost
CHECKED = "checked against its own functions"


@pytest.fixture(params=SUPPORTED)
def python(request):
    return need(request.param)


def more_env(harness, **more):
    """For the scripts: where notes go. A .pyc would be left in the source folder."""
    return {"PROBE_NOTES": harness.folder / "notes", "PYTHONDONTWRITEBYTECODE": "1", **more}


def run(harness, python, script, *arguments, **env):
    """The script under LD_PRELOAD; it must do as without us."""
    command = [python, HERE / script, *arguments]
    notes = harness.folder / "notes"
    without = harness.run(command, dict(harness.environment(preload=False, out=None),
                                        **{k: str(v) for k, v in more_env(harness, **env).items()}), log=False)
    if notes.exists():
        notes.unlink()
    outcome = harness.record(command, more_env=more_env(harness, **env))
    assert outcome.same_as(without), f"with layoutspy: {outcome}\nwithout: {without}"
    return outcome


def python_frames(trace):
    """stack number -> [(file, line, function)], innermost first."""
    stacks = {}
    for row in trace.rows("SELECT stack_id, file, line, function FROM stack_frame WHERE kind = 'python' "
                          "ORDER BY stack_id, depth"):
        stacks.setdefault(row["stack_id"], []).append((row["file"], row["line"], row["function"]))
    return stacks


def mallocs(trace):
    """size -> Python frames, of each cudaMalloc; [] where it has none."""
    stacks = python_frames(trace)
    return {row["f1"]: stacks.get(row["stack"], [])
            for row in trace.rows("SELECT f1, stack FROM api_call WHERE api = 'cudaMalloc'")}


def compare(harness):
    """Each note against the trace of its process. Returns how many there were."""
    notes = [json.loads(line) for line in (harness.folder / "notes").read_text().splitlines()]
    traces = {}
    for path in harness.traces():
        trace = harness.trace(path)
        traces[trace.pid()] = mallocs(trace)
    for note in notes:
        expected = [tuple(frame) for frame in note["stack"]][:DEPTH]
        found = traces[note["pid"]].get(note["size"])
        assert found == expected, f"{note['size']} bytes in process {note['pid']}"
    return len(notes)


def coverage(trace):
    return [(row["state"], row["detail"]) for row in
            trace.rows("SELECT state, detail FROM coverage WHERE layer = 'python-stacks'")]


def name_of(python):
    return "CPython " + ask(python, "sys.version.split()[0]")


def assert_checked(trace, name):
    assert coverage(trace) == [("on", f"{name}, {CHECKED}")]


def test_stacks_equal_pythons_own(harness, python):
    outcome = run(harness, python, "workload.py")
    assert outcome.status == 0, repr(outcome)
    calls, reused = map(int, outcome.out.split())
    assert calls > 1000 and reused > 100, "the workload is not what it should be"
    assert compare(harness) == calls + 1500
    assert_checked(harness.trace(), name_of(python))
    assert harness.trace().lost() == {}


def test_an_interpreter_on_its_way_out(harness, python):
    assert run(harness, python, "at_exit.py").status == 7
    assert compare(harness) == 7


def test_edited_code_has_its_own_lines(harness, python):
    outcome = run(harness, python, "edited.py")
    assert (outcome.status, outcome.out) == (0, "1100 reused\n"), repr(outcome)
    assert compare(harness) == 1100
    trace = harness.trace()
    warm = trace.one("""SELECT COUNT(DISTINCT stack) FROM api_call WHERE api = 'cudaMalloc' AND id IN
        (SELECT id FROM api_call WHERE api = 'cudaMalloc' ORDER BY id DESC LIMIT 100)""")
    assert warm == 1, "one line that is run a hundred times is one stack"


@pytest.mark.parametrize("way, notes", [("fork", 2 + 10 * 3), ("spawn", 2 + 4 * 3)])
def test_processes(harness, python, way, notes):
    outcome = run(harness, python, "forks.py", way)
    assert (outcome.status, outcome.out) == (0, "done\n"), repr(outcome)
    assert compare(harness) == notes
    for path in harness.traces():
        states = [state for state, detail in coverage(harness.trace(path)) if detail.split(",")[0] == name_of(python)]
        assert states == ["on"], coverage(harness.trace(path))


def test_interpreters_in_an_interpreter(harness, python):
    outcome = run(harness, python, "interpreters.py")
    assert (outcome.status, outcome.out) == (0, "done\n"), repr(outcome)
    assert compare(harness) == 9
    assert_checked(harness.trace(), name_of(python))


def test_threads_that_python_does_not_know(harness, python):
    outcome = run(harness, python, "c_threads.py")
    assert (outcome.status, outcome.out) == (0, "done\n"), repr(outcome)
    assert compare(harness) == 1 + 4 * 2 + 20 * 3
    trace = harness.trace()
    without = trace.rows("SELECT id FROM api_call WHERE api = 'cudaFree' AND f0 = 0 AND stack IN "
                         "(SELECT stack_id FROM stack_frame WHERE kind = 'python')")
    assert without == []
    assert trace.one("SELECT COUNT(*) FROM api_call WHERE api = 'cudaFree' AND f0 = 0") == 16


def libpython(python):
    folder, name = ask(python, "sysconfig.get_config_var('LIBDIR')"), ask(
        python, "sysconfig.get_config_var('INSTSONAME')")
    for path in (Path(folder) / name, Path(folder) / ask(python, "sysconfig.get_config_var('MULTIARCH')") / name):
        if path.suffix != ".a" and path.exists():
            return path
    pytest.skip(f"no shared libpython beside {python}")


@pytest.mark.parametrize("scope", ["local", "global"])
def test_a_program_that_brings_python_in_late(harness, python, scope):
    outcome = harness.same_with_and_without([BUILD / "tests" / "python" / "embed", libpython(python), scope])
    assert (outcome.status, outcome.out) == (0, "done\n"), repr(outcome)
    trace = harness.trace()
    top = ("<string>", 6, "<module>")
    found = {size: stack for size, stack in mallocs(trace).items() if stack}
    assert found == {2000: [("<string>", 2, "f"), top],
                     2001: [("<string>", 5, "g"), ("<string>", 3, "f"), top],
                     2002: [("<string>", 2, "f"), ("<string>", 7, "<module>")]}
    assert coverage(trace)[0] == ("off", "no Python in this process at its first CUDA call")
    assert ("on", f"{name_of(python)}, {CHECKED}") in coverage(trace)


@pytest.mark.parametrize("name", FREE_THREADED)
def test_free_threaded_builds_are_refused_by_name(harness, name):
    python = need(name)
    assert run(harness, python, "c_threads.py").status == 0
    assert coverage(harness.trace()) == [
        ("off", f"{name_of(python)}: free-threaded builds are not supported")]


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_versions_are_refused_by_name(harness, name):
    python = need(name)
    assert run(harness, python, "c_threads.py").status == 0
    assert coverage(harness.trace()) == [("off", f"{name_of(python)}: only versions 3.9 to 3.14 are known")]
    assert python_frames(harness.trace()) == {}


@pytest.mark.parametrize("variable", ["LAYOUTSPY_PYTHON", "LAYOUTSPY_STACKS"])
def test_switched_off(harness, variable):
    assert run(harness, need("system"), "c_threads.py", **{variable: "off"}).status == 0
    assert coverage(harness.trace()) == [("off", f"{variable}=off")]
    assert python_frames(harness.trace()) == {}


def test_under_layoutspy_run(harness):
    python = need("system")
    env = harness.environment(preload=False, out=None, **more_env(harness))
    outcome = harness.run([harness.program, "run", "-o", harness.out, "--", python, HERE / "c_threads.py"], env)
    assert outcome.status == 0, repr(outcome)
    assert compare(harness) == 1 + 4 * 2 + 20 * 3
    assert_checked(harness.trace(), name_of(python))
