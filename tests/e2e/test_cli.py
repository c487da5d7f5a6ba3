"""The command line of `layoutspy`: statuses, one-line errors, the shape of what it writes.

Traces are synthetic (synthetic.py): nothing is recorded here but by commands without CUDA.
"""

import csv
import io
import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import time

import pytest

from harness import COMMAND as LAYOUTSPY
from harness import LIBRARY, ON_STANDIN, app
from synthetic import Trace

OK, USAGE, INPUT, OUTPUT = 0, 2, 3, 4
VERBS = ["run", "collect", "report", "oom", "memory", "layouts", "census", "sql", "info"]
KEYS = ["kind", "severity", "title", "site", "count", "bytes", "time_ns", "gain_ns", "gain_bytes",
        "evidence", "advice"]


def layoutspy(*args, cwd=None, env=None, **options):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("LAYOUTSPY_")}
    environment.update(env or {})
    return subprocess.run([LAYOUTSPY, *map(str, args)], cwd=cwd, env=environment, text=True,
                          capture_output=not options, timeout=60, **options)


def one_line(result, status):
    """The run failed as it should: its status, and one line on stderr, which is returned."""
    assert result.returncode == status, result.stderr
    assert result.stderr.startswith("layoutspy")
    assert result.stderr.count("\n") == 1 and result.stderr.endswith("\n"), result.stderr
    return result.stderr


@pytest.fixture
def trace(tmp_path):
    """One of each: a lost buffer, growth, a pool's segment, copies that are and are not pinned."""
    path = tmp_path / "t.db"
    with Trace(path) as t:
        t.alloc("device", 1 << 20, 0, 900_000_000, site="app.c:10 main")
        t.alloc("device", 64, 1_000_000, site="app.c:11 lose")
        for i in range(40):
            t.alloc("pinned", 65536, 10_000_000 + i * 20_000_000, site="app.c:12 loop",
                    api="cudaHostAlloc")
        t.alloc("device", 20 << 20, 5_000_000, site="train.py:6 step",
                modules=("/x/torch/lib/libc10_cuda.so", "/usr/bin/python3"))
        for i in range(20):
            start = 100_000_000 + i * 40_000_000
            t.copy("H2D", 602112, start, 5_000_000, site="train.py:7 step", api="cudaMemcpyAsync")
            t.copy("H2D", 602112, start, 5_000, "pinned", "train.py:8 step", "cudaMemcpyAsync")
        t.kernel(999_000_000)
    return path


@pytest.fixture
def clean_trace(tmp_path):
    path = tmp_path / "clean.db"
    with Trace(path) as t:
        t.alloc("device", 1 << 20, 0, 900_000_000)
        for i in range(20):
            t.copy("H2D", 4096, 100_000_000 + i * 40_000_000, 5_000, "pinned",
                   api="cudaMemcpyAsync")
        t.kernel(999_000_000)
    return path


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


# --- report -----------------------------------------------------------------------------------

def test_report_json(trace):
    result = layoutspy("report", "--json", trace)
    assert result.returncode == OK and result.stderr == ""
    report = json.loads(result.stdout)
    assert list(report) == ["findings", "skipped", "coverage"]
    findings = report["findings"]
    for finding in findings:
        assert list(finding) == KEYS
        assert finding["severity"] in ("info", "warning", "problem")
        assert finding["evidence"]["confidence"] in ("seen", "linked", "estimated")
        assert finding["site"] and finding["title"] and finding["advice"]
    assert [(f["kind"], f["severity"], f["site"], f["count"], f["bytes"]) for f in findings] == [
        ("pageable-copy", "problem", "train.py:7 step", 20, 20 * 602112),
        ("leak", "problem", "app.c:12 loop", 40, 40 * 65536),
        ("leak", "warning", "app.c:11 lose", 1, 64),
        ("library-memory", "info", "train.py:6 step", 1, 20 << 20),
    ]
    assert findings[0]["time_ns"] == 100_000_000
    # No census; nothing tells how full the device was, or who has a context.
    assert {s["kind"] for s in report["skipped"]} == {"storage-held-by-views", "stray-context", "untracked-growth"}
    assert {"layer": "cudart", "state": "on", "detail": "calls through libcudart.so"} in \
        report["coverage"]


def test_report_text(trace):
    result = layoutspy("report", trace)
    assert result.returncode == OK and result.stderr == ""
    text = result.stdout
    assert "\033" not in text
    order = [text.index(part) for part in
             ["PROBLEM pageable-copy  train.py:7 step", "20 cudaMemcpyAsync calls", "Why:", "Do:",
              "Gain:", "leak  app.c:12 loop", "leak  app.c:11 lose", "NOTE library-memory",
              "What was seen"]]
    assert order == sorted(order)
    assert "No problems found" not in text


def test_report_is_stored_once(trace):
    first = layoutspy("report", "--json", trace).stdout
    assert layoutspy("report", "--json", trace).stdout == first
    with sqlite3.connect(trace) as db:
        assert db.execute("SELECT COUNT(*) FROM finding").fetchone() == (4,)


def test_report_of_a_clean_program(clean_trace):
    assert "No problems found.\n" in layoutspy("report", clean_trace).stdout
    assert json.loads(layoutspy("report", "--json", clean_trace).stdout)["findings"] == []


def test_report_without_calls_says_skipped(tmp_path):
    with Trace(tmp_path / "none.db"):
        pass
    text = layoutspy("report", tmp_path / "none.db").stdout
    words = " ".join(text.split())
    assert words.count("SKIPPED") == 1, "one paragraph, not one for each kind"
    assert re.search(r"SKIPPED [a-z, -]*\bleak, [a-z, -]*\bpageable-copy\b[a-z, -]*: no CUDA call in this trace", words)
    skipped = json.loads(layoutspy("report", "--json", tmp_path / "none.db").stdout)["skipped"]
    assert {"leak", "oom", "pageable-copy"} < {s["kind"] for s in skipped}
    assert {s["reason"] for s in skipped} == {"no CUDA call in this trace"}


def test_lost_events_come_first(tmp_path):
    with Trace(tmp_path / "lost.db") as t:
        t.alloc("device", 64, 1_000_000)
        t.lost("spool-cap", 1200)
    text = layoutspy("report", tmp_path / "lost.db").stdout
    assert text.index("LOST 1,200 events are missing (spool-cap)") < text.index("leak")
    report = json.loads(layoutspy("report", "--json", tmp_path / "lost.db").stdout)
    assert {"layer": "events", "state": "partial", "detail": "1200 lost: spool-cap"} in \
        report["coverage"]
    assert report["findings"][0]["evidence"]["confidence"] == "estimated"


@pytest.mark.parametrize("reason, line", [
    ("spool-cap", "12 events are missing (spool-cap): the spool had reached its cap"),
    ("stacks", "the stacks of 12 calls (stacks)"),
    ("kernel-names", "the kernel's name of 12 launches (kernel-names)"),
    ("damaged", "12 bytes are missing (damaged)"),
])
def test_lost_tells_what_and_why(reason, line, tmp_path):
    with Trace(tmp_path / "lost.db") as t:
        t.alloc("device", 64, 1_000_000)
        t.lost(reason, 12)
    text = layoutspy("report", tmp_path / "lost.db").stdout
    assert f"LOST {line}" in text
    assert ("a larger LAYOUTSPY_SPOOL_MAX" in text) == (reason == "spool-cap")
    finding = json.loads(layoutspy("report", "--json", tmp_path / "lost.db").stdout)["findings"][0]
    there = reason in ("stacks", "kernel-names")  # no free is missing then
    assert finding["evidence"]["confidence"] == ("seen" if there else "estimated")


def test_failed_calls_are_told(tmp_path):
    path = tmp_path / "oom.db"
    with Trace(path) as t:
        for i in range(4):
            t.alloc("device", 1 << 20, i * 1_000_000, 500_000_000 + i)
        t.kernel(900_000_000)
        t.kernel(910_000_000)
        t.db.execute("UPDATE call SET status = 2 WHERE id IN (1, 3)")
        t.db.execute("UPDATE call SET status = 700 WHERE id = 9")
        t.db.execute("UPDATE call SET status = 600 WHERE id = 10")
    text = layoutspy("report", path).stdout
    line = "3 calls failed: cudaMalloc 2 (status 2, out of memory), cudaLaunchKernel 1 (status 700,"
    assert line in " ".join(text.split())
    assert "No problems found among what this version looks for." in text


def test_a_trace_without_an_end(tmp_path):
    path = tmp_path / "live.db"
    with Trace(path) as t:
        for i in range(40):
            t.alloc("device", 4096, i * 10_000_000)
        t.db.execute("DELETE FROM meta WHERE key IN ('ended', 'end_ns')")
        t.db.execute("UPDATE meta SET value = ? WHERE key = 'pid'", (os.getpid(),))
        with open("/proc/sys/kernel/random/boot_id") as boot:
            t.db.execute("INSERT INTO meta VALUES('boot_id', ?)", (boot.read().strip(),))
    text = layoutspy("report", path).stdout
    assert "390 ms recorded" in text and "The program is still running." in text
    assert "SKIPPED leak: the recording has no end yet" in text and "WARNING" not in text
    info = layoutspy("info", path).stdout
    assert "for 390 ms; the program is still running" in info
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM meta WHERE key = 'boot_id'")
    assert "has no end in the trace yet" in layoutspy("info", path).stdout


@pytest.mark.parametrize("ended, more, text", [
    ("exit", {}, "exited"),
    ("exit", {"exit_status": 1}, "exited with status 1"),
    ("killed", {"signal": 9}, "was killed by signal 9"),
    ("exec", {"exit_status": 0}, "went on to run another program (exec)"),
    ("unknown", {"exit_status": 4}, "exited with status 4, without its exit handlers (_exit)"),
    ("unknown", {}, "ended without its exit handlers (killed, aborted or by _exit)"),
])
def test_how_it_ended(ended, more, text, tmp_path):
    path = tmp_path / "t.db"
    with Trace(path, ended=ended) as t:
        t.alloc("device", 4096, 1_000_000)
        for key, value in more.items():
            t.db.execute("INSERT INTO meta VALUES(?, ?)", (key, str(value)))
    report = layoutspy("report", path).stdout
    assert f"The program {text}.\n" in report
    assert f"; the program {text}\n" in layoutspy("info", path).stdout
    skipped = f"SKIPPED leak: the program {text}: that it held 4.00 KiB in 1 allocation"
    assert (skipped in " ".join(report.split())) == (ended != "exit")


def test_an_incomplete_trace_says_so(trace):
    (trace.parent / "t.db.spool").write_bytes(b"scribble" * 1000)
    result = layoutspy("report", trace)
    assert result.returncode == OK
    assert result.stdout.startswith("INCOMPLETE: ")
    assert layoutspy("info", trace).stdout.startswith("INCOMPLETE: ")
    coverage = json.loads(layoutspy("report", "--json", trace).stdout)["coverage"]
    assert ("recording", "partial") in {(c["layer"], c["state"]) for c in coverage}


@pytest.mark.parametrize("threads", [1, 3])
def test_a_gain_beyond_the_runs_length(threads, tmp_path):
    path = tmp_path / "threads.db"
    with Trace(path) as t:
        for i in range(30):
            t.copy("H2D", 4096, i * 30_000_000, 200_000_000, api="cudaMemcpyAsync")
        for n in range(2, threads + 1):
            t.db.execute("INSERT INTO thread VALUES(?, ?, 'worker')", (n, n))
    text = " ".join(layoutspy("report", path).stdout.split())
    assert "Gain: about 6.00 s of host time" in text and "% of the run" not in text
    assert ("summed over 3 threads" in text) == (threads == 3)


def test_report_of_any_bytes(tmp_path):
    """Sites hold file names, and file names hold anything."""
    with Trace(tmp_path / "odd.db") as t:
        t.alloc("device", 64, 1_000_000, site='a"b\\c\u00e9\U0001f600.c:4 f<int, char>(")")')
        t.alloc("device", 65, 1_000_000, site="raw")
        t.db.execute("UPDATE stack_site SET site = CAST(x'ff2e633a34' AS TEXT) WHERE site = 'raw'")
    report = json.loads(layoutspy("report", "--json", tmp_path / "odd.db").stdout)
    assert {f["site"] for f in report["findings"]} == \
        {'a"b\\c\u00e9\U0001f600.c:4 f<int, char>(")")', "?.c:4"}
    assert layoutspy("report", tmp_path / "odd.db", stdout=subprocess.DEVNULL).returncode == OK


def start_on_terminal(*args, env=None):
    """The command with a terminal as stdout and stderr, and the terminal's other side."""
    master, slave = pty.openpty()
    process = subprocess.Popen([LAYOUTSPY, *map(str, args)], stdout=slave, stderr=slave,
                               env={**os.environ, "TERM": "xterm", **(env or {})})
    os.close(slave)
    return process, master


def on_terminal(*args, env=None):
    """All that the command writes to a terminal."""
    process, master = start_on_terminal(*args, env=env)
    out = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # how Linux says that the other side was closed
            break
        if not part:
            break
        out += part
    os.close(master)
    assert process.wait(timeout=30) == OK
    return out.decode()


def test_colour_only_where_wanted(trace):
    assert "\033[1;31mPROBLEM" in on_terminal("report", trace)
    assert "\033" not in on_terminal("report", trace, env={"NO_COLOR": "1"})
    assert "\033" not in on_terminal("report", trace, env={"TERM": "dumb"})


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


# --- run --------------------------------------------------------------------------------------

@pytest.mark.parametrize("script, status", [
    ("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_run_exits_as_its_command(script, status, tmp_path):
    result = layoutspy("run", "--", "sh", "-c", script, cwd=tmp_path)
    assert "no CUDA call was seen" in one_line(result, status)
    assert layoutspy("run", "-q", "sh", "-c", script, cwd=tmp_path).stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_run_cannot_start(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert "nosuchcommand" in one_line(layoutspy("run", "nosuchcommand", cwd=tmp_path), 127)
    assert "script" in one_line(layoutspy("run", "./script", cwd=tmp_path), 126)


def test_run_without_cuda_names_the_ways_to_be_unseen(tmp_path):
    line = layoutspy("run", "true", cwd=tmp_path).stderr
    for part in ["statically linked", "RTLD_DEEPBIND", "dlsym on a handle", "driver API"]:
        assert part in line
    missing = layoutspy("run", "env", "nosuchcommand", cwd=tmp_path)
    assert missing.returncode == 127 and "no CUDA call" not in missing.stderr


@pytest.mark.parametrize("size, good", [
    ("300K", True), ("1m", True), ("4096", True), ("16777215T", True), ("", True),
    ("0", False), ("x", False), ("1Q", False), ("1GB", False), ("-1", False), (" 1", False),
    ("1.5G", False), ("16777216T", False), ("99999999999999999999", False)])
def test_run_checks_the_spools_size(size, good, tmp_path):
    result = layoutspy("run", "-q", "touch", "ran", cwd=tmp_path, env={"LAYOUTSPY_SPOOL_MAX": size})
    if good:
        assert result.returncode == OK and result.stderr == ""
    else:
        assert "LAYOUTSPY_SPOOL_MAX" in one_line(result, USAGE)
    assert (tmp_path / "ran").exists() == good


def test_run_sums_up_the_other_processes(tmp_path):
    """And not a trace of an earlier run, nor one of another name."""
    with Trace(tmp_path / "t.77.db") as old:
        old.kernel(1)
    (tmp_path / "other.db").touch()
    leaky = app("leaky")
    result = layoutspy("run", "-o", "t.db", "--", ON_STANDIN, "sh", "-c", f"{leaky}; {leaky}; exit 3",
                       cwd=tmp_path, env={"LAYOUTSPY_BUILD": str(LIBRARY.parents[1])})
    assert result.returncode == 3
    lines = [line for line in result.stderr.splitlines() if "beside it: " in line]
    other, = (p.name for p in tmp_path.glob("t.*.db") if p.name != "t.77.db")
    assert len(lines) == 1 and f"beside it: {other}, " in lines[0] and "problem" in lines[0]
    assert f"next: {LAYOUTSPY} report t.db" in result.stderr
    assert "; the program exited\n" in result.stderr


def test_run_tells_how_it_ended(tmp_path):
    result = layoutspy("run", "-o", "t.db", "--", ON_STANDIN, app("leaky"), cwd=tmp_path,
                       env={"LAYOUTSPY_BUILD": str(LIBRARY.parents[1])})
    assert "the program exited with status 0\n" in result.stderr
    assert "1 call " in result.stderr and "never freed)" not in result.stderr


def test_run_refuses_a_trace_that_exists(tmp_path):
    (tmp_path / "old.db").write_text("precious")
    (tmp_path / "left.db.spool").touch()
    for name, there in [("old.db", "old.db"), ("left.db", "left.db.spool")]:
        result = layoutspy("run", "-o", name, "touch", "ran", cwd=tmp_path)
        assert there in one_line(result, OUTPUT)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "old.db").read_text() == "precious"


def test_run_needs_a_folder_that_is_there(tmp_path):
    result = layoutspy("run", "-o", "none/t.db", "touch", "ran", cwd=tmp_path)
    assert "none" in one_line(result, OUTPUT)
    assert not (tmp_path / "ran").exists()


def run_and_print(variable, *args, env=None, cwd=None):
    result = layoutspy("run", "-q", *args, "sh", "-c", f"echo $$; echo ${variable}", env=env,
                       cwd=cwd)
    return result.stdout.splitlines()


def test_run_environment(tmp_path):
    pid, out = run_and_print("LAYOUTSPY_OUT", cwd=tmp_path)
    assert out == f"{tmp_path}/layoutspy.{pid}.db"
    pid, out = run_and_print("LAYOUTSPY_OUT", "-o", "%n-%r-%p-%%.db", env={"SLURM_PROCID": "5"},
                             cwd=tmp_path)
    assert out == f"{tmp_path}/sh-%r-{pid}-%%.db"  # the rank is each process's own
    _, out = run_and_print("LAYOUTSPY_OUT", env={"LAYOUTSPY_OUT": "set.db"}, cwd=tmp_path)
    assert out == f"{tmp_path}/set.db"
    assert run_and_print("LD_PRELOAD", cwd=tmp_path)[1] == str(LIBRARY)
    # An AddressSanitizer build would refuse to start behind another preloaded library.
    env = {"LD_PRELOAD": "libm.so.6", "ASAN_OPTIONS": "verify_asan_link_order=0"}
    assert run_and_print("LD_PRELOAD", env=env, cwd=tmp_path)[1] == f"{LIBRARY}:libm.so.6"


def test_run_leaves_the_rank_to_each_process(tmp_path):
    """A launcher gives ranks to what it starts: the name is theirs to complete, and ours for the rest."""
    out = layoutspy("run", "-q", "-o", str(tmp_path / "50%%-%r.db"), "--", "sh", "-c", 'echo "$LAYOUTSPY_OUT"')
    assert out.returncode == 0, out.stderr
    assert out.stdout.strip() == str(tmp_path / "50%%-%r.db")


def test_run_keeps_stdin_arguments_and_group(tmp_path):
    result = subprocess.run([LAYOUTSPY, "run", "-q", "--", "sh", "-c",
                             "cat; echo \"$@\"; ps -o pgid= -p $$", "sh", "-o", "a b", "--json"],
                            input="hello\n", text=True, capture_output=True, cwd=tmp_path,
                            timeout=30)
    lines = result.stdout.splitlines()
    assert lines[:2] == ["hello", "-o a b --json"]
    assert int(lines[2]) == os.getpgid(0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_run_passes_signals_on(number, tmp_path):
    script = f"trap 'echo got; exit 5' {number.name[3:]}; echo ready; while :; do sleep 0.05; done"
    # A shell cannot trap what was ignored when it began, as nohup leaves SIGHUP.
    process = subprocess.Popen([LAYOUTSPY, "run", "-q", "sh", "-c", script], text=True,
                               stdout=subprocess.PIPE, cwd=tmp_path,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.stdout.readline() == "got\n"
    assert process.wait(timeout=30) == 5
    process.stdout.close()


def test_run_leaves_the_terminals_interrupt_to_the_command(tmp_path):
    script = "trap 'echo got; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen([LAYOUTSPY, "run", "-q", "sh", "-c", script], text=True,
                               stdout=subprocess.PIPE, cwd=tmp_path, start_new_session=True)
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout.readline() == "got\n"
    assert process.wait(timeout=30) == 7
    process.stdout.close()


def test_run_waits_for_the_command_alone(tmp_path):
    start = time.monotonic()
    result = layoutspy("run", "-q", "sh", "-c", "sleep 20 >/dev/null 2>&1 & echo $!", cwd=tmp_path)
    assert time.monotonic() - start < 10
    os.kill(int(result.stdout), signal.SIGKILL)


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
