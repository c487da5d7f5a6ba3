"""The program behaves as without us: signals, errno, descriptors, threads, exceptions, loading."""

import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

import pytest

from harness import APPS, CUDART, FAULTS, LIBRARY, PLUGIN, app, fault, wait_until
from truth import parse_log

FRAMES = [str(FAULTS / "libframes_a.so"), str(FAULTS / "libframes_b.so")]


def test_signals(harness):
    outcome = harness.same_with_and_without([fault("signals")])
    assert outcome.status == 0 and outcome.err == ""
    harness.assert_true()


def test_errno_is_left_alone(harness):
    outcome = harness.same_with_and_without([fault("errnos")])
    assert "changed 0\n" in outcome.out
    harness.assert_true()


def test_all_descriptors_closed(harness):
    folder = harness.folder / "files"
    folder.mkdir()
    outcome = harness.same_with_and_without([fault("closes"), str(folder)])
    assert outcome.status == 0, repr(outcome)
    for f in range(8):
        want = "".join(f"file {f} round {r}\n" for r in range(50))
        assert (folder / f"file{f}").read_text() == want
    assert harness.assert_true()["recorded"] == 20 + 50 * 400
    assert harness.trace().lost() == {}


def test_standard_descriptors_closed(harness):
    """What we open meanwhile gets the numbers 0 to 2, and must be gone again."""
    script = f"{app('leaky')} <&- >&- 2>&-; echo $?; {app('leaky')} <&-"
    outcome = harness.same_with_and_without(["bash", "-c", script], out="t.%p.db")
    assert outcome.out == "0\n50 steps, last loss 49.0\n"
    harness.assert_all_true()


def test_500_threads_at_once(harness):
    harness.same_with_and_without([fault("threads"), "crowd", "500"])
    assert harness.assert_true()["recorded"] == 1500
    assert harness.trace().lost() == {}
    assert harness.trace().one("SELECT COUNT(*) FROM thread") == 500


def test_threads_that_come_and_go(harness):
    harness.same_with_and_without([fault("threads"), "churn", "2000"])
    assert harness.assert_true()["recorded"] == 6000
    assert harness.trace().lost() == {}


def test_cpp_exceptions(harness):
    if not (FAULTS / "throws").exists():
        pytest.skip("no C++ compiler")
    outcome = harness.same_with_and_without([fault("throws")])
    assert outcome.out == "caught 600, length 170\n"
    harness.assert_true()


def test_another_library_at_the_same_address(harness):
    """The unwinder must not walk B with what it remembers of A."""
    outcome = harness.same_with_and_without([fault("stale")] + FRAMES)
    harness.assert_true()
    depths = [int(line.split()[1]) for line in outcome.out.splitlines()]
    trace = harness.trace()
    rows = trace.rows("SELECT id, stack FROM api_call WHERE api = 'cudaMalloc' ORDER BY id")
    assert len(rows) == len(depths) == 20
    # What makes this a test: both lie at one address and return to the same places.
    assert trace.one("SELECT COUNT(DISTINCT start) FROM module WHERE path LIKE '%libframes_%'") == 1
    places = {side: [row[0] for row in trace.rows(
        "SELECT DISTINCT offset FROM stack_frame WHERE module LIKE ? ORDER BY 1", f"%lib{side}.so")]
        for side in ("frames_a", "frames_b")}
    assert places["frames_a"] == places["frames_b"]
    for n, (row, depth) in enumerate(zip(rows, depths)):
        frames = trace.rows("SELECT * FROM stack_frame WHERE stack_id = ? ORDER BY depth", row["stack"])
        side = "frames_a" if n % 2 == 0 else "frames_b"
        names = [f["function"] for f in frames]
        assert names[:3] == [f"{side}_inner", f"{side}_middle", f"{side}_outer"], (n, names)
        assert names[3:5] == ["frames_run", "main"], (n, names)
        # Inlined frames count as rows; the real ones are those that backtrace() saw in `inner`.
        assert len({f["offset"] for f in frames}) == depth, (n, names, depth)
        assert all(f"lib{side}.so" in f["module"] for f in frames[:4])


def test_thousands_of_loads_do_not_hold_up_the_collector(harness):
    """Each load begins a generation of modules: looking one up must not cost more with their number."""
    harness.same_with_and_without([fault("stale")] + FRAMES + ["10000"])
    assert harness.assert_true()["recorded"] == 20000
    trace = harness.trace()
    functions = {row[0] for row in trace.rows("SELECT DISTINCT function FROM stack_frame WHERE module LIKE '%libframes_%'")}
    assert functions == {f"{side}_{name}" for side in ("frames_a", "frames_b") for name in ("inner", "middle", "outer")} | {"frames_run"}


def test_loading_and_unloading_while_stacks_are_walked(harness):
    harness.same_with_and_without([fault("load_storm")] + FRAMES)
    assert harness.assert_true()["recorded"] == 2 * 1500 * 2
    trace = harness.trace()
    # Stacks are whole: each reaches the thread's start through deep().
    depths = Counter(row["n"] for row in trace.rows(
        "SELECT COUNT(*) AS n FROM stack_frame WHERE function = 'deep' GROUP BY stack_id"))
    assert max(depths) == 20, depths


# ---- what a preload cannot see ------------------------------------------------------------------


def nothing_or_said(harness):
    """No trace, or one that does not claim to have seen it all."""
    for path in harness.traces():
        trace = harness.trace(path)
        assert trace.one("SELECT COUNT(*) FROM coverage WHERE state IN ('partial', 'off', 'unavailable')") > 0
        report = harness.layoutspy("report", path)
        assert report.status == 0 and "not covered" in report.out.lower()


def test_static_runtime(harness):
    outcome = harness.same_with_and_without([fault("leaky_static")])
    assert (outcome.status, outcome.out, outcome.err) == (0, "50 steps, last loss 49.0\n", "")
    process, = [p for p in parse_log(harness.log) if p.calls]
    assert {call.by for call in process.calls} == {"app"}  # else this test tests nothing
    nothing_or_said(harness)


def test_deepbind(harness):
    command = [app("local_load"), CUDART, PLUGIN, "deepbind"]
    outcome = harness.same_with_and_without(command, preload_standin=False)
    assert outcome.status == 0 and outcome.out == "value 24\n"
    process, = [p for p in parse_log(harness.log) if p.calls]
    if any(call.by == "layoutspy" for call in process.calls):
        harness.assert_true()
    else:
        nothing_or_said(harness)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a setuid program")
def test_setuid_program():
    """Run by an ordinary user, so in a folder of its own that such a user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        program = Path(folder) / "setuid_rpath"
        shutil.copy(app("rpath"), program)
        os.chmod(program, 0o4755)
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(program)]
        env = {"PATH": os.environ["PATH"]}
        without = subprocess.run(drop, cwd=folder, env=env, capture_output=True)
        if without.returncode != 0:
            pytest.skip("an ordinary user cannot run it here: " + without.stderr.decode().strip())
        env.update(LD_PRELOAD=str(LIBRARY), LAYOUTSPY_OUT=f"{folder}/t.db")
        done = subprocess.run(drop, cwd=folder, env=env, capture_output=True)
        assert (done.returncode, done.stdout) == (without.returncode, without.stdout)
        assert done.stdout == b"row 7\n"
        assert [p.name for p in Path(folder).iterdir()] == ["setuid_rpath"]


# ---- programs without CUDA ------------------------------------------------------------------------


@pytest.mark.parametrize("command", [
    ["ls", "-l", "/usr"], ["bash", "-c", "true; (exit 3); x=$(date); exit 5"], ["ldd", "/bin/ls"],
    ["gcc", "-x", "c", "-c", "-o", "/dev/null", "/dev/null"],
    ["/usr/bin/python3", "-c", "import sqlite3; print(sqlite3.connect(':memory:').execute('select 1').fetchone())"],
], ids=lambda command: os.path.basename(command[0]))
def test_programs_without_cuda(harness, command):
    env = dict(harness.environment(), LAYOUTSPY_OUT="")
    plain = harness.environment(preload=False, out=None)
    for each in (env, harness.environment()):
        done = subprocess.run(command, cwd=harness.folder, env=each, capture_output=True)
        want = subprocess.run(command, cwd=harness.folder, env=plain, capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (want.returncode, want.stdout, want.stderr) or \
            command[0] == "ldd" and done.returncode == 0  # ldd lists the preload
    assert list(harness.folder.iterdir()) == []


def test_no_descriptor_mapping_or_thread_before_the_first_call(harness):
    """A process that inherited LD_PRELOAD looks as without, but for the library's own segments."""
    script = ("import os\n"
              "print(sorted(os.listdir('/proc/self/fd')))\n"
              "print(len(os.listdir('/proc/self/task')))\n"
              "names = {line.split(None, 5)[5].strip() for line in open('/proc/self/maps') if len(line.split(None, 5)) > 5}\n"
              "print(sorted(names - {%r}))\n"
              "print(sum(1 for line in open('/proc/self/maps') if len(line.split(None, 5)) < 6))\n" % str(LIBRARY))
    seen = []
    for env in (harness.environment(preload=False), harness.environment()):
        done = subprocess.run(["/usr/bin/python3", "-c", script], env=env, cwd=harness.folder, capture_output=True, check=True)
        seen.append(done.stdout.decode().splitlines())
    assert seen[0][:3] == seen[1][:3]
    assert int(seen[1][3]) - int(seen[0][3]) <= 1  # the library's .bss tail


def test_no_descriptor_is_left_open_while_recording(harness):
    """The target holds no descriptor of ours, and no thread."""
    seen = []
    for preload in (False, True):
        process = harness.start([fault("burst"), "1", "20"], harness.environment(preload=preload), log=False)
        try:
            if preload:
                assert wait_until(lambda: harness.out.exists())
                assert wait_until(lambda: b"trace.db.spool" in open(f"/proc/{process.pid}/maps", "rb").read())
            else:
                assert wait_until(lambda: b"burst" in open(f"/proc/{process.pid}/cmdline", "rb").read())
            # The program's two threads and the simulated device's one.
            assert wait_until(lambda: len(os.listdir(f"/proc/{process.pid}/task")) >= 3)
            time.sleep(0.3)
            seen.append((set(os.listdir(f"/proc/{process.pid}/fd")), len(os.listdir(f"/proc/{process.pid}/task"))))
        finally:
            process.kill()
            process.communicate()
    assert seen[0] == seen[1]
    harness.settle()


def test_jemalloc_or_another_preload_beside_us(harness):
    """A second preload that defines malloc: the order of start-up must not matter."""
    library = next((p for p in ("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",) if os.path.exists(p)), None)
    if not library:
        pytest.skip("libjemalloc2 is not installed")
    for preload in (f"{library}:{LIBRARY}", f"{LIBRARY}:{library}"):
        outcome = harness.run([app("leaky")], dict(harness.environment(out="j.%p.db"), LD_PRELOAD=preload), log=False)
        assert outcome.status == 0 and outcome.err == ""
    harness.settle()
    assert len(harness.traces()) == 2
