"""liblayoutspy.so as a file: what it exports, needs and costs the process it is loaded into."""

import re
import subprocess

import pytest

from harness import LIBRARY
from table import TABLE

# Beside the table: the module watch's hook, the version, what users call, and what NVTX calls.
# preload/export.h lists them.
OWN_NAMES = {"dlclose", "layoutspy_version", "layoutspy_step", "layoutspy_mode",
             "InitializeInjection", "InitializeInjectionNvtx2", "layoutspy_driver_wrapper"}


def tool(*command):
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module", autouse=True)
def built():
    if not LIBRARY.exists():
        pytest.fail(f"{LIBRARY} is not built")


def test_exports_are_the_table_and_the_listed_names():
    symbols = [line.split() for line in tool("nm", "-D", "--defined-only", LIBRARY).splitlines()]
    assert {name for _, _, name in symbols} == set(TABLE) | OWN_NAMES
    assert {kind for _, kind, _ in symbols} == {"T"}  # functions, strong, unversioned
    assert not [name for _, _, name in symbols if "@" in name]


def test_needs_only_the_c_library():
    dynamic = tool("readelf", "-dW", LIBRARY)
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) <= {"libc.so.6", "ld-linux-x86-64.so.2"}
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic and "TEXTREL" not in dynamic


def test_undefined_names_come_from_the_c_library():
    names = [line.split()[-1] for line in tool("nm", "-D", "--undefined-only", LIBRARY).splitlines()]
    strong = [line.split()[-1] for line in tool("nm", "-D", "--undefined-only", LIBRARY).splitlines() if " U " in line]
    assert all("@GLIBC_" in name for name in strong), [n for n in strong if "@GLIBC_" not in n]
    assert not [name for name in names if re.match(r"(sqlite3|_Unwind|unw|_U|XXH|yyjson|json)_", name)]


def test_no_sqlite_and_no_unwinder_shows():
    symbols = tool("nm", "-D", LIBRARY)
    assert "sqlite" not in symbols and "_Unwind_" not in symbols and "lzma" not in symbols


def test_thread_local_storage_is_small():
    tls = re.findall(r"^\s*TLS\s+\S+\s+\S+\s+\S+\s+\S+\s+(0x[0-9a-f]+)", tool("readelf", "-lW", LIBRARY), re.M)
    assert sum(int(size, 16) for size in tls) <= 64


def test_no_executable_stack_and_read_only_relocations():
    headers = tool("readelf", "-lW", LIBRARY)
    assert re.search(r"GNU_STACK.*RW ", headers) and not re.search(r"GNU_STACK.*RWE", headers)
    assert "GNU_RELRO" in headers
