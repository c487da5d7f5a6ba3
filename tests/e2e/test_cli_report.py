"""`layoutspy report`: its findings as text and JSON, and what it says of a trace that is not whole."""

import json
import os
import re
import sqlite3
import subprocess

import pytest

from cli import OK, layoutspy, on_terminal
from cli import clean_trace, trace  # noqa: F401
from synthetic import Trace

KEYS = ["kind", "severity", "title", "site", "count", "bytes", "time_ns", "gain_ns", "gain_bytes",
        "evidence", "advice"]


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
    # No census, no times of the GPU and no operands; nothing tells how full the device was, or who has a context.
    assert {s["kind"] for s in report["skipped"]} == {
        "copy-dominated",
        "early-allocation",
        "late-free",
        "storage-held-by-views",
        "stray-context",
        "untracked-growth",
        "unused-allocation",
    }
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


def test_colour_only_where_wanted(trace):
    assert "\033[1;31mPROBLEM" in on_terminal("report", trace)
    assert "\033" not in on_terminal("report", trace, env={"NO_COLOR": "1"})
    assert "\033" not in on_terminal("report", trace, env={"TERM": "dumb"})
