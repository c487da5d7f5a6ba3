"""Sites of Python programs: whose line each allocation and copy is put down to, and the mixed stack
behind it. The scripts call the CUDA runtime by ctypes; lines are found by their marker comments."""

import re
import sys

import pytest

from harness import PLUGIN, site_matches

# Every grab() is another size, which names it in the trace.
CUDA = """
import ctypes
cuda = ctypes.CDLL(None)
cuda.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
cuda.cudaMemcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def grab(size):
    pointer = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(pointer), size) == 0  # call
    return pointer
"""

# The library of those calls is installed as torch: a layer that nobody looks into.
PACKAGES = "lib/python3.11/site-packages"


class Program:
    """A folder of scripts, recorded, and its sites by size."""

    def __init__(self, harness):
        self.harness = harness
        self.files = {}
        self.write(f"{PACKAGES}/torch/__init__.py", CUDA)

    def write(self, name, text):
        path = self.harness.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.files[name] = path
        return path

    def record(self, *arguments, out="trace.db"):
        env = {"PYTHONPATH": str(self.harness.folder / PACKAGES), "PYTHONDONTWRITEBYTECODE": "1"}
        outcome = self.harness.record([sys.executable, *arguments], out=out, more_env=env)
        assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
        for path in self.harness.traces():
            states = self.harness.trace(path).rows("SELECT DISTINCT state FROM coverage WHERE layer = 'python-stacks'")
            assert [row["state"] for row in states] == ["on"]

    def site(self, size, path=None):
        return self.harness.trace(path).one("SELECT site FROM all_allocation WHERE size = ?", size)

    def line(self, name, marker):
        lines = [n for n, line in enumerate(self.files[name].read_text().splitlines(), 1)
                 if line.endswith(f"# {marker}")]
        assert len(lines) == 1, f"{name}: {marker} in {lines}"
        return lines[0]

    def at(self, size, name, marker, function):
        assert self.site(size) == f"{self.files[name]}:{self.line(name, marker)} {function}"


@pytest.fixture
def program(harness):
    return Program(harness)


FRAMES = """
import functools, threading
from torch import cuda, grab, ctypes

def plain():
    grab(101)  # plain

class Model:
    def forward(self):
        grab(102)  # method
    def __call__(self):
        return self.forward()

def decorate(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

@decorate
def decorated():
    grab(103)  # decorated

def generate():
    yield 1
    grab(104)  # generator
    yield 2

class Thing:
    def __del__(self):
        grab(105)  # finalizer

async def coroutine():
    grab(106)  # coroutine

def late():
    size = 107
    held = (
        grab(  # call of many lines
            size
        )
    )
    return held

def main():
    plain()
    Model()()
    decorated()
    list(generate())
    thing = Thing()
    del thing
    try:
        coroutine().send(None)
    except StopIteration:
        pass
    late()
    (lambda: grab(108))()  # lambda
    sorted([1], key=lambda n: grab(109))  # callback
    list(map(grab, [110]))  # from C
    thread = threading.Thread(target=plain_thread)
    thread.start()
    thread.join()
    buffer = ctypes.create_string_buffer(64)
    device = grab(112)  # copied to
    cuda.cudaMemcpy(device, buffer, 64, 1)  # copy

def plain_thread():
    grab(111)  # thread

main()
grab(113)  # module
"""


def test_every_frame_names_its_line(program):
    program.write("train.py", FRAMES)
    program.record(program.files["train.py"])
    for size, marker, function in [
            (101, "plain", "plain"), (102, "method", "forward"), (103, "decorated", "decorated"),
            (104, "generator", "generate"), (105, "finalizer", "__del__"), (106, "coroutine", "coroutine"),
            (107, "call of many lines", "late"), (108, "lambda", "<lambda>"), (109, "callback", "<lambda>"),
            (110, "from C", "main"), (111, "thread", "plain_thread"), (112, "copied to", "main"),
            (113, "module", "<module>")]:
        program.at(size, "train.py", marker, function)
    trace = program.harness.trace()
    assert trace.one("SELECT site FROM all_copy") == \
        f"{program.files['train.py']}:{program.line('train.py', 'copy')} main"
    program.harness.assert_true()


def test_native_frames_are_inside_of_pythons(program):
    program.write("train.py", FRAMES)
    program.record(program.files["train.py"])
    trace = program.harness.trace()
    stack = trace.one("SELECT stack FROM all_allocation WHERE size = 102")
    frames = trace.rows("SELECT * FROM stack_frame WHERE stack_id = ? ORDER BY depth", stack)
    kinds = [f["kind"] for f in frames]
    native = kinds.count("native")
    assert kinds == ["native"] * native + ["python"] * (len(frames) - native) and 1 <= native < len(frames)
    assert re.match("_PyEval_EvalFrame", frames[native - 1]["function"]), frames[native - 1]
    python = [(f["function"], f["file"].rsplit("/", 1)[1], f["module"]) for f in frames[native:]]
    assert python == [("grab", "__init__.py", None), ("forward", "train.py", None), ("__call__", "train.py", None),
                      ("main", "train.py", None), ("<module>", "train.py", None)]


def test_program_without_a_file(program):
    program.record("-c", "from torch import grab\ndef f():\n    grab(7)\nf()\ngrab(8)")
    assert program.site(7) == "<string>:3 f"
    assert program.site(8) == "<string>:5 <module>"


def test_code_from_strings(program):
    """A cell of a notebook is the user's; what exec ran is, too, but the file that ran it says more."""
    program.write("run.py", """
from torch import grab
exec(compile("def cell():\\n  grab(21)\\ncell()", "<ipython-input-3-0a1b>", "exec"))
exec("grab(22)")  # exec
eval("grab(23)")  # eval
""")
    program.record(program.files["run.py"])
    assert program.site(21) == "<ipython-input-3-0a1b>:2 cell"
    program.at(22, "run.py", "exec", "<module>")
    program.at(23, "run.py", "eval", "<module>")


def test_installed_product(program):
    """Nothing is the user's own file: the product's line, not that of the layers below, nor of the
    script that starts it."""
    product = f"{PACKAGES}/serve/engine.py"
    program.write(product, """
from accelerate import hook
from torch import grab

def step():
    hook()  # hook
    grab(31)  # step

def main():
    step()
""")
    program.write(f"{PACKAGES}/accelerate/hooks.py", "from torch import grab\ndef hook():\n    grab(32)\n")
    program.write(f"{PACKAGES}/accelerate/__init__.py", "from .hooks import hook\n")
    script = program.write("bin/serve", "import sys\nfrom serve.engine import main\nsys.exit(main())\n")
    program.record(script)
    program.at(31, product, "step", "step")
    program.at(32, product, "hook", "step")


def test_framework_alone(program):
    """A script that only starts a framework is better than the framework's inside."""
    script = program.write("bin/start", "from torch import grab\ngrab(41)\n")
    program.record(script)
    assert program.site(41) == f"{script}:2 <module>"


def test_own_native_library_is_nearer(program):
    """A library of the user's that Python called: its line, as in a C program."""
    script = program.write("train.py", f"import ctypes\nctypes.CDLL({str(PLUGIN)!r}).plugin_run(2)\n")
    program.record(script)
    trace = program.harness.trace()
    assert site_matches(program.site(4096), "plugin.c", "plugin leak", "plugin_lose")
    for row in trace.rows("SELECT site, stack FROM all_copy"):
        assert site_matches(row["site"], "plugin.c", "plugin copy", "plugin_run")
        outer = trace.rows("SELECT kind, file, function FROM stack_frame WHERE stack_id = ? ORDER BY depth DESC LIMIT 1",
                           row["stack"])[0]
        assert (outer["kind"], outer["file"], outer["function"]) == ("python", str(script), "<module>")


def test_spawned_worker(program):
    """multiprocessing starts it by python -c, which is nobody's line."""
    program.write("work.py", """
import multiprocessing
from torch import grab

def work():
    grab(51)  # work

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=work)
    process.start()
    process.join()
    indirect = multiprocessing.get_context("spawn").Process(target=grab, args=(52,))
    indirect.start()
    indirect.join()
    assert process.exitcode == 0 and indirect.exitcode == 0
    grab(50)  # parent
""")
    program.record(program.files["work.py"], out="t.%p.db")
    sites = {}
    for path in program.harness.traces():
        for row in program.harness.trace(path).rows("SELECT size, site FROM all_allocation"):
            sites[row["size"]] = row["site"]
    work, torch = program.files["work.py"], program.files[f"{PACKAGES}/torch/__init__.py"]
    assert sites == {50: f"{work}:{program.line('work.py', 'parent')} <module>",
                     51: f"{work}:{program.line('work.py', 'work')} work",
                     52: f"{torch}:{program.line(f'{PACKAGES}/torch/__init__.py', 'call')} grab"}
