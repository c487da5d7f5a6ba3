"""The tensor census on every interpreter that is installed: what it finds and what it calls it, that
nothing is asked of objects that misbehave, that nothing is left behind. PyTorch is a stand-in here
(fake_torch.py); tests/pytorch has the real one."""

import subprocess
import time
from pathlib import Path

import pytest

import census_spool
from census_spool import ASKED, COMPLETE, CUT, EXIT, FAILED
from pythons import FREE_THREADED, SUPPORTED, need
from harness import app

HERE = Path(__file__).resolve().parent

# The length of each tensor of census_objects.py, and its paths. Some have flags beside "global".
PATHS = {
    10: ["plain", "by_tensor.<key>"],
    11: ["cache['k']"],
    12: ["cache[7]"],
    13: ["cache[tuple]"],
    14: ["cache[-1]"],
    15: ["cache['\u00e9t\u00e9']"],
    16: ["pair[0]"],
    17: ["pair[1][0]"],
    18: ["ring[1]"],
    19: ["ring[2]"],
    20: ["some{}"],
    21: ["by_tensor[plain]"],
    22: ["tied", "tied_too"],
    23: ["Plain.held_by_class"],
    24: ["thing.inner.weight"],
    25: ["thing.last"],
    26: ["slotted.second"],
    27: ["both.first"],
    28: ["both.extra"],
    29: ["keeps['inside']"],
    30: ["keeps.beside"],
    31: ["listed[0]"],
    32: ["listed.beside"],
    33: ["point.x"],
    34: ["space.value"],
    35: ["model.layers.3.weight"],
    36: ["model.layers.3.weight._kept", "model.layers.3.weight.grad"],
    37: ["model.mean"],
    38: ["model.cached[0]"],
    39: ["plain.attribute"],
    40: ["closure.<closure captured>"],
    41: ["with_default.__defaults__[0]"],
    42: ["with_default.__kwdefaults__['key']"],
    43: ["partial.args[0]"],
    44: ["partial.keywords['keyword']"],
    45: ["generator.<local kept>"],
    50: ["iterates.tensors[0]"],
    51: ["of_a_class.__class__.held"],
    52: ["namespace.value"],
    60: ["rude.kept"],
    61: ["in_rude[Rude]"],
    62: ["checked.kept"],
    63: ["rude_tensor"],
    64: ["rude_dict['kept']"],
    65: ["by_rude_key['key']"],
    67: ["wrapper.inner"],
}
ELSEWHERE = {
    47: ("raised", "errors[0]: exception ValueError at census_objects.py:LINE fail: local_of_fail"),
    48: ("lost", "unreachable Plain.lost"),
    49: ("lost", "unreachable list[0]"),
    70: ("local", "census_objects.py:LINE thread_main: local_of_thread[0]"),
    71: ("raised", "exception KeyError at census_objects.py:LINE handling: raised_here"),
    72: ("local", "census_objects.py:LINE paths_of_all: local_of_main['x']"),
    73: ("local", "census_objects.py:LINE paths_of_all: cell_of_main"),
}
WAYS = {"global", "local", "raised", "lost", "graph"}


@pytest.fixture(params=SUPPORTED)
def python(request):
    return need(request.param)


@pytest.fixture
def one_python():
    return need("system")


def start(harness, command, **env):
    env = {"LAYOUTSPY_COLLECTOR": "none", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(HERE), **env}
    return harness.start([str(c) for c in command], harness.environment(**env), log=False)


def run(harness, *command, **env):
    """Runs it; returns its output and its censuses."""
    process = start(harness, command, **env)
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert (process.returncode, err.decode()) == (0, "")
    return out.decode(), census_spool.read(spool(harness))


def spool(harness):
    return Path(f"{harness.out}.spool")


def without_line(path):
    start, colon, end = path.partition("census_objects.py:")
    return path if not colon else start + colon + "LINE " + end.partition(" ")[2]


def script(harness, text):
    path = harness.folder / "script.py"
    path.write_text("import ctypes, os, sys, time\nfrom pathlib import Path\nimport census_spool\n"
                    "cuda = ctypes.CDLL(None)\npointer = ctypes.c_void_p()\n"
                    "def call():\n    cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64))\n"
                    "    cuda.cudaFree(pointer)\n"
                    "def wish():\n    census_spool.wish(Path(os.environ['LAYOUTSPY_OUT'] + '.spool'))\n" + text)
    return path


def test_every_place_where_a_tensor_can_be(harness, python):
    out, censuses = run(harness, python, HERE / "census_objects.py")
    assert out == "done\n"
    census = censuses[0]
    assert (census.reason, census.state, census.text) == (ASKED, COMPLETE, "")
    found = {t.shape[0]: t for t in census.tensors() if len(t.shape) == 1}
    for size, paths in PATHS.items():
        told = found[size]
        assert (sorted(told.paths), told.path_count) == (sorted(paths), len(paths)), size
        assert told.flags & WAYS == {"global"}, size
    for size, (way, path) in ELSEWHERE.items():
        told = found[size]
        assert path in [without_line(p) for p in told.paths], size
        assert told.flags & WAYS == {way}, size
    assert 66 not in found, "a wrapper says nothing of itself"
    assert max(len(p) for p in found[69].paths) < 330, "a path that is too long is cut"
    assert census.tensor_count == len(census.tensors()) == len(PATHS) + len(ELSEWHERE) + 3 + 413


def test_what_is_said_of_a_tensor(harness, python):
    _, censuses = run(harness, python, HERE / "census_objects.py")
    half, view = censuses[0].by_path("half"), censuses[0].by_path("view")
    assert (half.shape, half.stride, half.dtype, half.bytes, half.offset) == ((4, 6), (6, 1), "float16", 48, 0)
    assert (view.shape, view.stride, view.dtype, view.bytes, view.offset) == ((3,), (2,), "float16", 6, 6)
    assert half.cls == "fake_torch.Tensor"
    assert "contiguous" in half.flags and "view" not in half.flags
    assert "contiguous" not in view.flags and "view" in view.flags
    storage = censuses[0].storage_of("half")
    assert storage is censuses[0].storage_of("view") and storage.bytes == 48 and len(storage.tensors) == 2
    losses = {f"losses[{i}]" for i in range(413)}
    assert losses <= set(censuses[0].paths())


def test_at_any_moment_of_a_busy_program(harness, python):
    out, censuses = run(harness, python, HERE / "census_storm.py", 3)
    assert out == "done\n"
    assert len(censuses) > 3
    assert {c.state for c in censuses} <= {COMPLETE, CUT}


@pytest.mark.parametrize("setting, reasons", [("exit", [ASKED, EXIT]), ("on", [ASKED]), ("", [ASKED])])
def test_settings(harness, one_python, setting, reasons):
    path = script(harness, "import fake_torch\nkept = fake_torch.Tensor(5)\ncall()\nwish()\ncall()\nlen([])\n")
    _, censuses = run(harness, one_python, path, LAYOUTSPY_CENSUS=setting)
    assert [(c.reason, c.state, c.paths()) for c in censuses] == [(r, COMPLETE, ["kept"]) for r in reasons]


@pytest.mark.parametrize("setting", ["LAYOUTSPY_CENSUS", "LAYOUTSPY_PYTHON"])
def test_switched_off(harness, one_python, setting):
    path = script(harness, "import fake_torch\ncall()\nwish()\ncall()\ncall()\nlen([])\n")
    _, censuses = run(harness, one_python, path, **{setting: "off"})
    assert [(c.reason, c.state, c.text) for c in censuses] == [(ASKED, FAILED, f"{setting}=off")]


def test_without_stacks(harness, one_python):
    path = script(harness, "import fake_torch\nkept = fake_torch.Tensor(5)\ncall()\nwish()\ncall()\nlen([])\n")
    _, censuses = run(harness, one_python, path, LAYOUTSPY_STACKS="off")
    assert [(c.state, c.paths()) for c in censuses] == [(COMPLETE, ["kept"])]


def test_without_pytorch(harness, one_python):
    _, censuses = run(harness, one_python, script(harness, "call()\nwish()\ncall()\nlen([])\n"))
    assert [(c.state, c.text) for c in censuses] == [(FAILED, "PyTorch is not loaded in this process")]


def test_a_pytorch_that_is_not_known(harness, one_python):
    path = script(harness, "import fake_torch\ndel fake_torch.StorageBase.nbytes\ncall()\nwish()\ncall()\nlen([])\n")
    _, censuses = run(harness, one_python, path)
    assert [c.state for c in censuses] == [FAILED]
    assert "version of PyTorch" in censuses[0].text


@pytest.mark.parametrize("version", FREE_THREADED)
def test_a_free_threaded_build_is_refused(harness, version):
    _, censuses = run(harness, need(version), script(harness, "import fake_torch\ncall()\nwish()\ncall()\nlen([])\n"))
    assert [(c.state, c.text) for c in censuses] == [(FAILED, "free-threaded builds are not supported")]


def test_a_program_without_python(harness):
    process = start(harness, [app("loops")])
    while process.poll() is None and not (spool(harness).exists() and spool(harness).stat().st_size > 4096):
        time.sleep(0.001)
    wished = process.poll() is None
    if wished:
        census_spool.wish(spool(harness))
    process.communicate(timeout=120)
    if not wished:
        pytest.skip("it was over too soon")
    censuses = census_spool.read(spool(harness))
    assert [(c.state, c.text) for c in censuses] in ([], [(FAILED, "there is no Python in this process")])


def test_the_program_gets_as_much_time(harness, one_python):
    path = script(harness, """
import fake_torch
kept = [fake_torch.Tensor(1) for _ in range(2000)]
call()
end = time.monotonic() + 2
while time.monotonic() < end:
    wish()
    call()
    len([])
""")
    _, censuses = run(harness, one_python, path)
    assert len(censuses) >= 2
    ticks = sum(c.end - c.begin for c in censuses)
    assert ticks < 0.75 * (censuses[-1].end - censuses[0].begin), "more than half of the time"


def test_a_full_queue_of_pending_calls(harness, one_python):
    """The interpreter takes 32 of them; while its main thread sleeps, another one's calls try again."""
    path = script(harness, """
import threading, fake_torch
kept = fake_torch.Tensor(5)
NOTHING = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
full = []
def fill():
    time.sleep(0.1)
    while ctypes.pythonapi.Py_AddPendingCall(NOTHING, None) == 0:
        full.append(1)
    wish()
    call()
    time.sleep(0.5)
    call()
call()
thread = threading.Thread(target=fill)
thread.start()
end = time.monotonic() + 0.4
cuda.usleep(400000)
thread.join()
for i in range(100):
    len([])
print(len(full))
""")
    out, censuses = run(harness, one_python, path)
    assert 1 <= int(out) <= 64
    assert [(c.state, c.paths()) for c in censuses] == [(COMPLETE, ["kept"])]


def test_a_forked_child_takes_its_own(harness, python):
    """A wish of the parent's, whose pending call the fork copies, is not the child's."""
    path = script(harness, """
import fake_torch
kept = fake_torch.Tensor(5)
call()
def child():
    call()
    for i in range(10): len([])
    os._exit(0)
wish(); call(); pid = os.fork()
if pid == 0:
    child()
os.waitpid(pid, 0)
for i in range(10): len([])
""")
    _, censuses = run(harness, python, path)
    assert [(c.reason, c.state) for c in censuses] == [(ASKED, COMPLETE)]
    others = [p for p in harness.folder.glob("*.spool") if p != spool(harness)]
    assert [census_spool.read(p) for p in others] == [[]]


@pytest.mark.parametrize("what, why", [("[[] for _ in range(1_500_000)]", "objects"),
                                       ("[fake_torch.Tensor(1) for _ in range(70_000)]", "tensors")])
def test_bounded_in_memory_and_time(harness, one_python, what, why):
    path = script(harness, f"""
import fake_torch
kept, many = fake_torch.Tensor(5), {what}
call()
wish()
start = time.monotonic()
call()
len([])
print(time.monotonic() - start)
""")
    out, censuses = run(harness, one_python, path)
    assert [c.state for c in censuses] == [CUT]
    assert f"more {why}" in censuses[0].text or "time" in censuses[0].text
    assert "kept" in censuses[0].paths()
    assert float(out) < 3, "2 s, and the machine has other things to do"


def test_a_signal_and_an_alarm_meanwhile(harness, python):
    """Signal handlers of Python's run after it, those of C's in the middle of it."""
    path = script(harness, """
import signal, fake_torch
kept, many = fake_torch.Tensor(5), [[i] for i in range(100000)]
hits = []
signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
call()
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for i in range(5):
    start = time.monotonic()
    wish(); call()
    for j in range(100): len([])
    time.sleep(1.5 * (time.monotonic() - start))
signal.setitimer(signal.ITIMER_REAL, 0)
print(bool(hits))
""")
    out, censuses = run(harness, python, path)
    assert out == "True\n"
    assert len(censuses) == 5 and {c.state for c in censuses} <= {COMPLETE, CUT}
    assert all("kept" in c.paths() for c in censuses)
