"""The command line of `layoutspy`: statuses, one-line errors, the shape of what it writes. Of `report` and `run`
in test_cli_report.py and test_cli_run.py.

Traces are synthetic (synthetic.py): nothing is recorded here.
"""

import csv
import io
import json
import os
import select
import sqlite3
import subprocess

import pytest

from cli import INPUT, LAYOUTSPY, OK, OUTPUT, USAGE, layoutspy, one_line, start_on_terminal
from cli import trace  # noqa: F401

VERBS = ["run", "collect", "report", "oom", "memory", "layouts", "census", "sql", "info"]


# --- usage ------------------------------------------------------------------------------------

def test_version_and_help():
    assert layoutspy("--version").stdout.startswith("layoutspy ")
    overview = layoutspy("--help")
    assert overview.returncode == OK and overview.stderr == ""
    for verb in VERBS:
        assert verb in overview.stdout
        help = layoutspy(verb, "--help")
        assert help.returncode == OK and help.stderr == ""
        assert f"layoutspy {verb}" in help.stdout


@pytest.mark.parametrize("args, about", [
    ([], "verb"),
    (["frobnicate"], "frobnicate"),
    (["--frobnicate"], "--frobnicate"),
    (["report"], "TRACE"),
    (["report", "--frobnicate", "t.db"], "--frobnicate"),
    (["report", "--json=yes", "t.db"], "takes no value"),
    (["report", "a.db", "b.db"], "b.db"),
    (["info"], "TRACE"),
    (["info", "-z", "t.db"], "-z"),
    (["sql", "t.db"], "QUERY"),
    (["sql"], "TRACE"),
    (["run"], "COMMAND"),
    (["run", "--"], "COMMAND"),
    (["run", "-o"], "-o"),
    (["run", "--output"], "needs a value"),
    (["run", "-z", "true"], "-z"),
    (["run", "-o", "a%q.db", "true"], "%q"),
    (["run", "-o", "a%", "true"], "%"),
    (["run", "-o", "", "true"], "names no file"),
    (["run", "-o", "x/", "true"], "names no file"),
    (["run", "-o", "x" * 5000, "true"], "too long"),
])
def test_wrong_usage(args, about, tmp_path):
    assert about in one_line(layoutspy(*args, cwd=tmp_path), USAGE)
    assert list(tmp_path.iterdir()) == []


# --- input ------------------------------------------------------------------------------------

@pytest.mark.parametrize("verb", [["report"], ["info"], ["sql"], ["report", "--json"]])
def test_unreadable_input(verb, tmp_path, trace):
    query = ["SELECT 1"] if verb == ["sql"] else []
    (tmp_path / "text").write_text("this is no trace\n" * 1000)
    (tmp_path / "empty").touch()
    (tmp_path / "dir").mkdir()
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE x(a)")
    newer = sqlite3.connect(trace)
    newer.execute("PRAGMA user_version = 1000000")
    newer.close()
    for name in ["missing.db", "text", "empty", "dir", "other.db", "t.db"]:
        line = one_line(layoutspy(*verb, name, *query, cwd=tmp_path), INPUT)
        assert name in line


# --- output -----------------------------------------------------------------------------------

@pytest.mark.parametrize("args", [["report"], ["report", "--json"], ["info"], ["sql"]])
def test_unwritable_output(args, trace):
    query = ["SELECT * FROM call"] if args == ["sql"] else []
    with open("/dev/full", "w") as full:
        result = layoutspy(*args, trace, *query, stdout=full, stderr=subprocess.PIPE)
    assert "No space left" in one_line(result, OUTPUT)


@pytest.mark.parametrize("form", ["--table", "--csv", "--json"])
def test_a_reader_that_goes_away_is_no_error(form, trace):
    query = "SELECT a.id, a.api, b.id FROM call a, call b, call c"  # more than any pipe holds
    process = subprocess.Popen([LAYOUTSPY, "sql", form, trace, query], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=30) == OK
    assert process.stderr.read() == b""
    process.stderr.close()


# --- sql --------------------------------------------------------------------------------------

def test_sql_table(trace):
    result = layoutspy("sql", trace, "SELECT site, bytes FROM pageable_copy LIMIT 1")
    assert result.returncode == OK
    assert result.stdout.splitlines() == ["site              bytes",
                                          "---------------  ------",
                                          "train.py:7 step  602112"]


def test_sql_csv(trace):
    query = "SELECT 1 AS a, 2.5 AS b, NULL AS c, '' AS d, 'x,\"y' AS e, x'00ff' AS f"
    result = layoutspy("sql", "--csv", trace, query)
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows == [["a", "b", "c", "d", "e", "f"], ["1", "2.5", "", "", 'x,"y', "x'00ff'"]]
    assert ',,"",' in result.stdout  # NULL is told from an empty text


def test_sql_json(trace):
    query = "SELECT 1 AS a, 2.5 AS b, NULL AS c, 'x\"y' AS d, 3.0 AS e, 9e999 AS f"
    result = layoutspy("sql", "--json", trace, query)
    assert json.loads(result.stdout) == [
        {"a": 1, "b": 2.5, "c": None, "d": 'x"y', "e": 3.0, "f": None}]
    assert json.loads(layoutspy("sql", "--json", trace, "SELECT 1 WHERE 0").stdout) == []


def test_sql_table_streams_after_its_first_rows(trace):
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500) " \
            "SELECT i FROM n"
    lines = layoutspy("sql", trace, query).stdout.split()
    assert lines[2:] == [str(i) for i in range(1, 2501)]


@pytest.mark.parametrize("query", [
    "SELEC 1", "SELECT nothing FROM call", "", "-- only a comment", "SELECT 1; SELECT 2",
    "DELETE FROM call", "DROP TABLE call", "INSERT INTO call(id) VALUES(1)", "BEGIN",
    "CREATE TEMP TABLE x(a)", "ATTACH 'other.db' AS other", "VACUUM", "PRAGMA user_version = 7",
])
def test_sql_refuses(query, trace, tmp_path):
    before = trace.read_bytes()
    one_line(layoutspy("sql", trace, query, cwd=tmp_path), USAGE)
    assert trace.read_bytes() == before
    assert not (tmp_path / "other.db").exists()


def test_sql_takes_one_statement_with_its_semicolon(trace):
    assert layoutspy("sql", "--csv", trace, "SELECT 1; -- one").stdout == "1\n1\n"
    assert layoutspy("sql", "--csv", trace, "PRAGMA integrity_check").stdout.endswith("ok\n")


# --- info -------------------------------------------------------------------------------------

def test_info(trace):
    for name in ["t.77.db", "t.notapid.db", "t.77.db-wal"]:
        (trace.parent / name).touch()
    text = layoutspy("info", trace).stdout
    for part in ["the program exited", "beside it  ", "./app", "1234", "pinned_alloc", "lost", "none",
                 "t.77.db", "calls through libcudart.so"]:
        assert part in text
    assert "notapid" not in text and "wal" not in text


# --- progress ---------------------------------------------------------------------------------

def test_progress_line_of_a_long_query(trace):
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n" \
            " WHERE i = 100000000"
    process, master = start_on_terminal("sql", trace, query)
    seen = b""
    while b"running the query, 1 s" not in seen:
        assert select.select([master], [], [], 20)[0], seen
        seen += os.read(master, 4096)
    process.kill()
    process.wait()
    os.close(master)
    assert seen.startswith(b"\r\033[Klayoutspy: ")
