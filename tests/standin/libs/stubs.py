#!/usr/bin/env python3
"""Makes what a stand-in library needs from the committed list of a real library's exports.

    stubs.py list LIBRARY STATUS > symbols/NAME.txt   take the list from a real library
    stubs.py source LIST > NAME.c           a weak stub for each export; hand-written code wins
    stubs.py map LIST SONAME > NAME.map     the version script: the exports, and nothing else

A list opens with `version` (the version node: `soname` for the usual case of the library's own
soname, `-` for a library without versions) and `status` (what the stubs return). Then comes one
export a line; a second word `text` marks a function that returns a string.
"""

import re
import subprocess
import sys
from pathlib import Path

NOT_API = {"_init", "_fini", "__bss_start", "_edata", "_end"}
NOT_TEXT = {"cudnnGetLastErrorString", "cublasGetError", "cuptiGetLastError"}
TEXT = re.compile(r"Get(Last)?(Error|Status)(String|Name)?$")


def exports(library):
    """A library's version node (or -) and the C functions that it exports."""
    command = ["nm", "-D", "--defined-only", library]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    version, names = "-", []
    for line in lines:
        _, kind, name = line.split()
        name, _, _ = name.partition("@")
        if kind == "A":
            version = name
        elif kind in "TW" and name not in NOT_API and not name.startswith("_Z"):
            names.append(name)
    return version, names


def make_list(library, status):
    version, names = exports(library)
    print("version", "soname" if version == Path(library).name else version)
    print("status", status)
    for name in sorted(names):
        print(f"{name} text" if TEXT.search(name) and name not in NOT_TEXT else name)


def read_list(path):
    head, names = {}, []
    for line in Path(path).read_text().splitlines():
        name, *rest = line.split()
        if name in ("version", "status"):
            head[name] = rest[0]
        else:
            names.append((name, rest == ["text"]))
    return head, names


def make_source(path):
    head, names = read_list(path)
    print(f"/* Made by stubs.py from {Path(path).name}: a weak stub for each export. */")
    print('#include "stub.h"')
    for name, text in names:
        print(f"STUB_TEXT({name})" if text else f"STUB({name}, {head['status']})")


def make_map(path, soname):
    head, names = read_list(path)
    node = {"-": "", "soname": soname + " "}.get(head["version"], head["version"] + " ")
    print(node + "{\n  global:")
    for name, _ in names:
        print(f"    {name};")
    print("  local: *;\n};")


if __name__ == "__main__":
    verbs = {"list": (make_list, 2), "source": (make_source, 1), "map": (make_map, 2)}
    verb, arguments = verbs.get(sys.argv[1] if len(sys.argv) > 1 else "", (None, 0))
    if verb is None or len(sys.argv) != arguments + 2:
        sys.exit(__doc__)
    verb(*sys.argv[2:])
