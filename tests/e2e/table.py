"""The one table of intercepted functions, read from include/layoutspy/api/*.def by a parser of
its own, so that the tests do not believe what the product made of it."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "include" / "layoutspy" / "api"
SCHEMA = [ROOT / "analyzer" / name for name in ("schema.sql", "schema_views.sql")]
LIBRARIES = dict(re.findall(r'\bLIBRARY\((\w+), "(\w+)"', (API / "library.def").read_text()))


def schema():
    """The text that makes an empty trace."""
    return "".join(path.read_text() for path in SCHEMA)


class Row:
    def __init__(self, name, library, cls, fields):
        self.name, self.library, self.cls, self.fields = name, library, cls, fields

    def __repr__(self):
        return f"Row({self.name})"


def _without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def _arguments(text, start):
    """Splits at top-level commas from the '(' at `start`; returns the parts and the end."""
    depth, parts, begin = 0, [], start + 1
    for i in range(start, len(text)):
        if text[i] == "(":
            depth += 1
        elif text[i] == ")":
            depth -= 1
            if depth == 0:
                parts.append(text[begin:i].strip())
                return parts, i + 1
        elif text[i] == "," and depth == 1:
            parts.append(text[begin:i].strip())
            begin = i + 1
    raise ValueError("unbalanced row")


def _rows(path):
    text = _without_comments(path.read_text())
    at = 0
    while True:
        match = re.compile(r"\b(API(?:_TWIN|_PTDS|_PTSZ|_MAP_PTSZ|_MAP|_MAP_VOID|_AROUND|_VOID_WHEN|_WHEN|_WIDE|_WIDE_PTSZ|_OPERANDS|_OPERANDS_PTSZ)?)\s*\(").search(text, at)
        if not match:
            return
        form = match.group(1)
        parts, at = _arguments(text, match.end() - 1)
        if form in ("API_MAP_VOID", "API_VOID_WHEN"):
            parts.insert(1, "void")
        if form in ("API_VOID_WHEN", "API_WHEN"):
            del parts[7]  # the condition
        if form.startswith("API_WIDE"):
            del parts[7]  # what the header says
        if form.startswith("API_OPERANDS"):
            del parts[7]  # the statements
        if form.startswith("API_MAP") or form == "API_AROUND":  # a statement where the others have fields
            parts[3:3] = ["MAP", "NONE"]
            parts[7:] = []
        names = [parts[2]]
        if form == "API_TWIN":
            names = [parts.pop(3)]
        elif form.endswith(("_PTDS", "_PTSZ")):
            names.append(parts[2] + form[-5:].lower())
        fields = re.findall(r"\bF\(\s*(\w+)\s*,\s*(\w+)\s*,", ",".join(parts[7:]))
        for name in names:
            yield Row(name, LIBRARIES[parts[0]], parts[3].lower(), [(n, t.lower()) for n, t in fields])


def read_table():
    """All rows by name, in the table's order."""
    rows = {}
    for include in re.findall(r'#include "layoutspy/api/(\w+\.def)"', (API / "all.def").read_text()):
        for row in _rows(API / include):
            assert row.name not in rows, f"{row.name} has two rows"
            rows[row.name] = row
    return rows


def stubs(build):
    """What the simulated device's libraries do not do: weak functions that answer alike and log nothing but their name."""
    folder = build / "tests" / "standin"
    libraries = [path for path in [*folder.glob("lib*.so.[0-9]*"), *(folder / "libs").glob("lib*.so.[0-9]*")]
                 if path.is_file()]
    exported = subprocess.run(["nm", "-D", "--defined-only", *libraries], capture_output=True, text=True,
                              check=True).stdout
    return {line.split()[-1].split("@")[0] for line in exported.splitlines() if " W " in line}


TABLE = read_table()
RECORDED = {name: row for name, row in TABLE.items() if row.cls != "map"}
