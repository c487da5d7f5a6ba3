"""The one table of intercepted functions, read from include/layoutspy/api/*.def by the preprocessor
and a parser of its own, so that the tests do not believe what the product made of it."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
API = ROOT / "include" / "layoutspy" / "api"
SCHEMA = [ROOT / "analyzer" / name for name in ("schema.sql", "schema_layout.sql", "schema_views.sql")]
LIBRARIES = dict(re.findall(r'\bLIBRARY\((\w+), "(\w+)"', (API / "library.def").read_text()))


def schema():
    """The text that makes an empty trace."""
    return "".join(path.read_text() for path in SCHEMA)


class Row:
    def __init__(self, name, library, cls, fields):
        self.name, self.library, self.cls, self.fields = name, library, cls, fields

    def __repr__(self):
        return f"Row({self.name})"


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


def _rows():
    """Every row, by the preprocessor alone: what its form comes to without what the product makes of it."""
    row = "#define API(LIB, ret, name, CLASS, STACK, params, args, ...) @ROW(LIB, name, CLASS, __VA_ARGS__)\n"
    text = subprocess.run(["cc", "-E", "-P", "-I", ROOT / "include", "-"], check=True, capture_output=True, text=True,
                          input=row + '#include "layoutspy/api/all.def"\n').stdout
    for match in re.finditer(r"@ROW\(", text):
        (library, name, cls, *fields), _ = _arguments(text, match.end() - 1)
        fields = re.findall(r"\bF\(\s*(\w+)\s*,\s*(\w+)\s*,", ",".join(fields))
        yield Row(name, LIBRARIES[library], cls.lower(), [(n, t.lower()) for n, t in fields])


def read_table():
    """All rows by name, in the table's order."""
    rows = {}
    for row in _rows():
        assert row.name not in rows, f"{row.name} has two rows"
        rows[row.name] = row
    return rows


def stubs(build):
    """What the simulated device's libraries do not do: weak functions that answer alike and log only their name."""
    folder = build / "tests" / "standin"
    libraries = [path for path in [*folder.glob("lib*.so.[0-9]*"), *(folder / "libs").glob("lib*.so.[0-9]*")]
                 if path.is_file()]
    exported = subprocess.run(["nm", "-D", "--defined-only", *libraries], capture_output=True, text=True,
                              check=True).stdout
    return {line.split()[-1].split("@")[0] for line in exported.splitlines() if " W " in line}


TABLE = read_table()
RECORDED = {name: row for name, row in TABLE.items() if row.cls != "map"}
