"""The simulated device itself: it refuses what hardware refuses, runs late and in order, and tells
the truth. What can share a process is in ../standin/tests; here each test has its own."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import BUILD, ON_STANDIN, ROOT
from table import RECORDED, TABLE, stubs
from truth_log import WORDS

FOLDER = BUILD / "tests" / "standin"
PROBE = str(FOLDER / "standin-probe")

pytestmark = pytest.mark.skipif(not (FOLDER / "libstandin.so").exists(), reason="not built")


def run(command, *options, cwd=None, **more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("STANDIN_", "LAYOUTSPY_")) and k != "LD_PRELOAD"}
    env["LAYOUTSPY_BUILD"] = str(BUILD)
    env.update(more)
    return subprocess.run([str(ON_STANDIN), *options, "--", *command], env=env, cwd=cwd,
                          capture_output=True, text=True, timeout=120)


def probe(verb, *options, **more):
    return run([PROBE, verb], *options, **more)


def lines(path):
    return [line.split("\t") for line in Path(path).read_text().splitlines() if not line.startswith("#")]


def notes(path):
    return [line.split(" ") for line in Path(path).read_text().splitlines() if line.startswith("#")]


def fields(line):
    return dict(field.split("=", 1) for field in line[6:])


def test_groups():
    test = FOLDER / "test-standin"
    if not test.exists():
        pytest.skip("built without cmocka")
    done = run([str(test)], "--memory", "1G", "--devices", "2", STANDIN_DELAY_US="20000")
    assert done.returncode == 0, done.stdout + done.stderr


def test_host_access_to_device_memory_faults():
    assert probe("segv").returncode == -11


@pytest.mark.parametrize("verb", ["fork-after", "fork-before", "fork-storm", "vmm", "proc-address"])
def test_probe(verb):
    done = probe(verb)
    assert done.returncode == 0, done.stderr


def test_no_device():
    assert probe("no-device", "--devices", "0").stdout == "100 0 100 100\n"


def test_exit_with_work_under_way(tmp_path):
    done = probe("exit-busy", "--log", "log", cwd=tmp_path, STANDIN_DELAY_US="3000")
    assert (done.returncode, done.stdout) == (0, "freed after exit\n"), done.stderr


def test_closed_descriptors(tmp_path):
    done = probe("close-all", "--log", "log", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line[3] for line in lines(tmp_path / "log")][-3:] == [
        "cudaMemset", "cudaDeviceSynchronize", "cudaFree"]


def test_fault_switch():
    plain = probe("faults").stdout
    assert plain == "0 0 0 0 0 0 0 0\n"
    some = probe("faults", STANDIN_FAIL="cudaMalloc:3:2,cudaMemset:*:719").stdout
    assert some == "0 0 2 0 719 719 0 719\n"
    assert probe("faults", STANDIN_FAIL="*:1:999").stdout.split()[:2] == ["999", "0"]


def test_a_failed_call_has_no_effect(tmp_path):
    probe("faults", "--log", "log", cwd=tmp_path, STANDIN_FAIL="cudaFree:*:1")
    assert len([note for note in notes(tmp_path / "log") if note[0] == "#live"]) == 4


def test_log(tmp_path):
    assert probe("fork-before", "--log", "log", cwd=tmp_path).returncode == 0
    log = lines(tmp_path / "log")
    assert {line[5] for line in log} == {"app"}
    for pid in {line[0] for line in log}:
        numbers = [int(line[2]) for line in log if line[0] == pid]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    launch = next(line for line in log if line[3] == "cudaLaunchKernel")
    assert fields(launch) == {"kernel": "_Z5probev", "grid": "2,1,1", "block": "64,1,1", "shared": "0",
                              "stream": "0", "device": "0"}
    free = next(line for line in log if line[3] == "cudaFree")
    assert fields(free)["memory"] == "device" and fields(free)["size"] == "100"
    live = [note for note in notes(tmp_path / "log") if note[0] == "#live"]
    assert [note[2:3] + note[4:] for note in live] == [["device", "100"]]


def test_exports():
    library = next(FOLDER.glob("libcudart.so.1[0-9]"))
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True,
                            check=True).stdout
    exports = {name: kind for kind, name in re.findall(r" ([TW]) (\w+)@@", listed)}
    version = library.name.split(".")[-1]
    names = set((ROOT / "tests" / "standin" / "symbols" / f"libcudart{version}.txt").read_text().split())
    rows = [row.name for row in TABLE.values() if row.library == "cudart" and row.name in names]
    assert len(rows) > 120
    assert [name for name in rows if exports.get(name) != "T"] == [], "rows without a hand-written function"
    assert set(re.findall(r"@@(\S+)", listed)) == {library.name}


def test_log_has_the_fields_of_the_table(tmp_path):
    """Every row that the groups and `everycall` reach logs every field that the row records."""
    for command in (FOLDER / "test-standin", BUILD / "tests" / "apps" / "everycall"):
        if command.exists():
            run([str(command)], "--memory", "1G", "--devices", "2", "--log", "log", cwd=tmp_path)
    logged = {}
    for line in lines(tmp_path / "log"):
        logged.setdefault(line[3], []).append(set(fields(line)))
    reached = [row for row in RECORDED.values() if row.name in logged.keys() - stubs(BUILD)]
    assert len(reached) > 30
    for row in reached:
        wanted = {name for name, _ in row.fields} - {"kernel"}  # unknown functions have no name
        for got in logged[row.name]:
            assert wanted <= {WORDS.get(word, word) for word in got}, row.name


def test_reports_of_pytorchs_allocator(tmp_path):
    """Each is a line and goes on to libc10.so; the CPU's are no lines."""
    assert run([str(BUILD / "tests" / "apps" / "everycall")], "--devices", "2", "--log", "log",
               cwd=tmp_path).returncode == 0
    reports = [line for line in lines(tmp_path / "log") if line[3].startswith("_ZN3c10")]
    assert {line[4] for line in reports} == {"0"} and {line[5] for line in reports} == {"app"}
    assert [fields(line)["size"] for line in reports] == [
        "512", "-512", "1024", "-1024", str(1 << 40), str(1 << 40)]
    assert [fields(line)["allocated"] for line in reports[:4]] == ["512", "0", "1024", "0"]
    assert {fields(line)["device"] for line in reports} == {"1"}


def test_memory_of_another_process(tmp_path):
    done = run([str(BUILD / "tests" / "apps" / "ipc_pair")], "--log", "log", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "5 5 7\n"), done.stderr
    log = lines(tmp_path / "log")
    given = [fields(line) for line in log if line[3] == "cudaIpcGetMemHandle"]
    taken = [fields(line) for line in log if line[3] == "cudaIpcOpenMemHandle"]
    assert [t["handle"] for t in taken] == [given[0]["handle"], given[0]["handle"], given[1]["handle"]]
    assert [t["size"] for t in taken] == ["200000", "200000", "70000"]
    live = [note[3:] for note in notes(tmp_path / "log") if note[0] == "#live" and note[2] == "ipc"]
    assert live == [[taken[2]["ptr"], "70000"]]


@pytest.mark.parametrize("arguments, complaint", [
    ([], "no command"), (["--memory"], "wants a value"), (["--memory", "much", "true"], "size such as"),
    (["--devices", "17", "true"], "from 0 to 16"), (["--what", "true"], "unknown option")])
def test_usage(arguments, complaint):
    done = subprocess.run([str(ON_STANDIN), *arguments], capture_output=True, text=True,
                          env={**os.environ, "LAYOUTSPY_BUILD": str(BUILD)})
    assert done.returncode == 2
    assert complaint in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""


def test_on_standin_keeps_what_was_set(tmp_path):
    show = ["sh", "-c", "echo $LD_PRELOAD; echo $STANDIN_MEMORY $STANDIN_LOG"]
    done = subprocess.run([str(ON_STANDIN), "--memory", "8G", "--log", "a/b", *show], text=True, cwd=tmp_path,
                          capture_output=True,
                          env={**os.environ, "LAYOUTSPY_BUILD": str(BUILD), "LD_PRELOAD": "libm.so.6"})
    first, second = done.stdout.splitlines()
    assert re.split("[ :]", first)[0] == "libm.so.6" and "libcudart.so" in first
    assert second == f"{8 << 30} {tmp_path}/a/b"


def test_without_cuda_calls_nothing_is_written(tmp_path):
    assert run(["true"], "--log", "log", cwd=tmp_path).returncode == 0
    assert not (tmp_path / "log").exists()


def test_status_of_the_command():
    assert run(["sh", "-c", "exit 42"]).returncode == 42
    assert run(["/no/such/command"]).returncode in (126, 127)


def find_nvcc():
    home = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    return shutil.which("nvcc") or shutil.which("nvcc", path=f"{home}/bin")


@pytest.mark.skipif(not find_nvcc(), reason="no nvcc")
def test_program_of_nvcc(tmp_path):
    """Host code as NVIDIA's compiler makes it, linked with NVIDIA's libcudart, run on ours."""
    source = ROOT / "tests" / "standin" / "tests" / "vendor.cu"
    version = subprocess.run([find_nvcc(), "--version"], capture_output=True, text=True, check=True).stdout
    if not list(FOLDER.glob("libcudart.so." + re.search(r"release (\d+)", version)[1])):
        pytest.skip("the simulated device is of another CUDA version")
    subprocess.run([find_nvcc(), "-cudart", "shared", "-arch=sm_90", "-o", "vendor", str(source)],
                   cwd=tmp_path, check=True, timeout=300)
    done = run([str(tmp_path / "vendor")], "--log", "log", cwd=tmp_path)
    assert done.stdout == "cudaErrorInvalidConfiguration\n4 1 1 1 9.0 Simulated Device\n", done.stderr
    kernels = [fields(line)["kernel"] for line in lines(tmp_path / "log") if line[3] == "__cudaLaunchKernel"]
    assert kernels == ["_Z5scaleIfEvPT_i", "_Z5scaleIfEvPT_i", "_Z5scaleIdEvPT_i"]
