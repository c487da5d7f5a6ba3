"""Bad input to every verb: one clear line on stderr, the promised status, nothing harmed."""

import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import COMMAND, app

READERS = {"report": [], "info": [], "sql": ["SELECT 1"]}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """One good trace for all tests here; each takes a copy."""
    from harness import Harness
    harness = Harness(tmp_path_factory.mktemp("recorded"))
    assert harness.record([app("leaky")]).status == 0
    return harness.out


def one_line(outcome, *words):
    lines = outcome.err.splitlines()
    assert len(lines) == 1, outcome.err
    assert lines[0].startswith("layoutspy"), lines[0]
    for word in words:
        assert str(word).lower() in lines[0].lower(), (word, lines[0])


def read(harness, verb, path):
    return harness.layoutspy(verb, path, *READERS[verb])


def text_file(path, _):
    path.write_text("this is no database\n" * 100)


def empty_file(path, _):
    path.write_bytes(b"")


def other_database(path, _):
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE recipes(name TEXT)")
    db.commit()


def newer(path, good):
    shutil.copy(good, path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 999")
    db.commit()


def older(path, good):
    shutil.copy(good, path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 1")
    db.commit()


def truncated(path, good):
    path.write_bytes(good.read_bytes()[:5000])


def garbled(path, good):
    data = bytearray(good.read_bytes())
    data[100:4000] = os.urandom(3900)
    path.write_bytes(data)


def folder(path, _):
    path.mkdir()


def fifo(path, _):
    os.mkfifo(path)


@pytest.mark.parametrize("verb", READERS)
@pytest.mark.parametrize("make, word", [
    (None, "no such"), (text_file, ""), (empty_file, ""), (other_database, ""), (newer, "newer"), (older, "older"), (truncated, ""),
    (garbled, ""), (folder, ""), (fifo, "")], ids=lambda m: getattr(m, "__name__", ""))
def test_not_a_readable_trace(harness, recorded, verb, make, word):
    path = harness.folder / "bad.db"
    if make:
        make(path, recorded)
    before = path.read_bytes() if path.is_file() else None
    outcome = read(harness, verb, path)
    assert outcome.status == 3, repr(outcome)
    assert outcome.out == ""
    one_line(outcome, "bad.db", word)
    if before is not None:
        assert path.read_bytes() == before
    assert sorted(p.name for p in harness.folder.iterdir()) == (["bad.db"] if make else [])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
@pytest.mark.parametrize("verb", READERS)
def test_unreadable_for_this_user(recorded, verb):
    """In a folder that an ordinary user can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "secret.db")
        shutil.copy(recorded, path)
        os.chmod(path, 0o600)
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(COMMAND)]
        if subprocess.run(drop + ["--version"], capture_output=True).returncode != 0:
            pytest.skip("an ordinary user cannot run it here")
        done = subprocess.run(drop + [verb, path] + READERS[verb], capture_output=True, text=True)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1), done
        assert "ermission" in done.stderr


@pytest.mark.parametrize("verb", READERS)
def test_read_only_trace_is_read(harness, recorded, verb):
    """A trace on read-only media is good: findings need not be stored in it."""
    path = harness.folder / "ro.db"
    shutil.copy(recorded, path)
    path.chmod(0o444)
    before = path.read_bytes()
    outcome = read(harness, verb, path)
    assert (outcome.status, outcome.err) == (0, "")
    if os.geteuid() != 0:
        assert path.read_bytes() == before


@pytest.mark.parametrize("arguments", [
    [], ["--no-such-option"], ["no-such-verb"], ["report"], ["report", "--no-such-option", "x.db"], ["info"], ["sql"],
    ["sql", "x.db", "SELECT 1", "surplus", "more"], ["run"], ["run", "--"], ["run", "--no-such-option", "true"],
    ["run", "-o"], ["run", "-o", "bad%z.db", "--", "true"], ["run", "-o", "bad%", "--", "true"], ["report", "a.db", "b.db"],
    ["collect"], ["collect", "--no-such-option"]], ids=" ".join)
def test_wrong_usage(harness, arguments):
    outcome = harness.layoutspy(*arguments)
    assert outcome.status == 2, repr(outcome)
    assert outcome.out == ""
    one_line(outcome)
    assert list(harness.folder.iterdir()) == []


def test_sql_that_fails(harness, recorded):
    outcome = harness.layoutspy("sql", recorded, "SELECT no_such_column FROM all_copy")
    assert outcome.status == 2 and outcome.out == ""
    one_line(outcome, "no_such_column")


@pytest.mark.parametrize("statement", ["DELETE FROM call", "DROP TABLE call", "UPDATE copy SET bytes = 0",
                                       "PRAGMA user_version = 7"])
def test_sql_does_not_change_a_trace(harness, recorded, statement):
    path = harness.folder / "t.db"
    shutil.copy(recorded, path)
    before = read(harness, "sql", path) and harness.layoutspy("sql", path, "SELECT COUNT(*), SUM(f2) FROM call").out
    outcome = harness.layoutspy("sql", path, statement)
    if statement.startswith("PRAGMA"):
        assert sqlite3.connect(path).execute("PRAGMA user_version").fetchone()[0] == 5
    else:
        assert outcome.status == 2
        one_line(outcome)
    assert harness.layoutspy("sql", path, "SELECT COUNT(*), SUM(f2) FROM call").out == before


# ---- run ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command, status", [
    (["true"], 0), (["sh", "-c", "exit 3"], 3), (["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "kill -15 $$"], 143),
    (["no-such-program-here"], 127), (["/etc/passwd"], 126)])
def test_run_has_the_commands_status(harness, command, status):
    outcome = harness.layoutspy("run", "-o", harness.folder / "t.db", "--", *command)
    assert outcome.status == status, repr(outcome)
    assert outcome.out == ""
    if status in (126, 127):
        one_line(outcome, command[0])


def test_run_refuses_an_output_that_exists(harness):
    harness.out.write_text("precious")
    outcome = harness.layoutspy("run", "-o", harness.out, "--", "touch", harness.folder / "ran")
    assert outcome.status == 4, repr(outcome)
    one_line(outcome, "trace.db", "exists")
    assert harness.out.read_text() == "precious"
    assert not (harness.folder / "ran").exists()  # refused before the command, not after hours of it


def test_run_uses_an_empty_file(harness):
    """Nobody's trace: a name that was touched, or looked for too early with sqlite3."""
    harness.out.touch()
    outcome = harness.layoutspy("run", "-q", "-o", harness.out, "--", app("leaky"))
    assert outcome.status == 0, repr(outcome)
    assert [path.name for path in harness.folder.glob("*.db")] == [harness.out.name]
    assert harness.trace().one("SELECT COUNT(*) FROM call") > 0


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("elsewhere.db")], ids=["folder", "link"])
def test_run_refuses_what_only_looks_empty(harness, make):
    make(harness.out)
    (harness.folder / "elsewhere.db").touch()
    outcome = harness.layoutspy("run", "-o", harness.out, "--", "touch", harness.folder / "ran")
    assert outcome.status == 4, repr(outcome)
    one_line(outcome, "trace.db", "exists")
    assert not (harness.folder / "ran").exists()


@pytest.mark.parametrize("out", ["no-such-folder/t.db", "/proc/t.db", "."])
def test_run_refuses_an_output_that_cannot_be_written(harness, out):
    outcome = harness.layoutspy("run", "-o", out, "--", "touch", harness.folder / "ran")
    assert outcome.status == 4, repr(outcome)
    one_line(outcome)
    assert not (harness.folder / "ran").exists()


def test_run_passes_standard_input_and_output(harness):
    outcome = harness.layoutspy("run", "-o", harness.folder / "t.db", "--", "tr", "a-z", "A-Z", stdin=b"words\n")
    assert (outcome.status, outcome.out) == (0, "WORDS\n")


def test_output_that_cannot_be_written(recorded):
    for arguments in (["report", recorded], ["report", "--json", recorded], ["info", recorded],
                      ["sql", recorded, "SELECT * FROM api"], ["--help"], ["--version"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([str(COMMAND)] + [str(a) for a in arguments], stdout=full, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 4, (arguments, done.returncode)
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"], ["report", "--help"], ["sql", "--help"],
                                       ["info", "--help"], ["collect", "--help"]], ids=" ".join)
def test_help(harness, arguments):
    outcome = harness.layoutspy(*arguments)
    assert (outcome.status, outcome.err) == (0, "")
    assert re.search(r"layoutspy", outcome.out) and "\033" not in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 100
