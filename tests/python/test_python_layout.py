"""The offsets that stacks are read with, against each installed interpreter's own headers; and the
lines of its whole library, against its own answers."""

import subprocess
from pathlib import Path

import pytest

from harness import ROOT
from pythons import SUPPORTED, ask, need

HERE = Path(__file__).resolve().parent

# Each instruction of each function of many modules of the standard library: our line and Python's.
LINES = """
import ctypes, os, sys, types
ours = ctypes.CDLL(sys.argv[1]).ls_python_line
ours.restype = ctypes.c_uint32
ours.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int64]
theirs = ctypes.pythonapi.PyCode_Addr2Line
theirs.argtypes = [ctypes.py_object, ctypes.c_int]
minor = sys.version_info[1]
form = 0 if minor == 9 else 1 if minor == 10 else 2
count = 0
def check(code):
    global count
    table = code.co_lnotab if minor == 9 else code.co_linetable
    for at in range(-2, len(code.co_code), 2):
        line = ours(form, table, len(table), code.co_firstlineno, at)
        expected = max(theirs(code, at), 0)
        assert line == expected, (code, at, line, expected)
        count += 1
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            check(const)
folder = os.path.dirname(os.__file__)
for name in sorted(os.listdir(folder))[::3]:
    if name.endswith(".py"):
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            check(compile(f.read(), name, "exec"))
print(count)
"""


@pytest.fixture(params=SUPPORTED)
def python(request):
    return need(request.param)


def compile_c(*arguments):
    done = subprocess.run(["cc", "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-w", f"-I{ROOT}", f"-I{ROOT}/include",
                           *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_offsets_equal_the_headers(python, tmp_path):
    folder = Path(ask(python, "sysconfig.get_path('include')"))
    if not (folder / "internal").is_dir():
        pytest.skip(f"no headers of {python}")
    program = tmp_path / "check_layout"
    platform = ask(python, "sysconfig.get_path('platinclude')")
    compile_c(f"-I{folder}", f"-I{folder}/internal", f"-I{platform}", HERE / "check_layout.c", "-o", program)
    done = subprocess.run([str(program)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_lines_equal_pythons_own(python, tmp_path):
    library = tmp_path / "lines.so"
    compile_c("-shared", "-fPIC", ROOT / "preload" / "python_lines.c", "-o", library)
    done = subprocess.run([python, "-c", LINES, str(library)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100_000
