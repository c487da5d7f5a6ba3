"""Where there is no room: a full disk, a file size limit, the spool's cap. The program goes on as
without us, and what is missing is counted."""

import os
import re
import shutil
import subprocess
import time

import pytest

from harness import CUDART, app, fault
from truth import Trace, parse_log


def recorded_and_lost(path):
    trace = Trace(path)
    recorded, lost = trace.one("SELECT COUNT(*) FROM call"), trace.lost()
    assert trace.one("PRAGMA integrity_check") == "ok"
    trace.close()
    return recorded, lost


@pytest.fixture
def tiny_disk(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


PROGRAM = [fault("threads"), "churn", "6000"]  # 18,000 calls: some 2 MB of records


@pytest.mark.parametrize("collector", [{}, {"LAYOUTSPY_COLLECTOR": "none"}], ids=["collector", "no-collector"])
def test_full_disk(harness, tiny_disk, collector):
    harness.same_with_and_without(PROGRAM, out="tiny/t.db", more_env=collector)
    calls = sum(len(p.calls) for p in parse_log(harness.log))
    assert calls == 18000
    # Whatever could be kept is readable once there is room.
    roomy = harness.folder / "roomy"
    shutil.copytree(tiny_disk, roomy)
    outcome = harness.layoutspy("report", roomy / "t.db")
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    recorded, lost = recorded_and_lost(roomy / "t.db")
    assert sum(lost.values()) > 0 and recorded > 0
    assert recorded + sum(lost.values()) == calls, (recorded, lost)


def test_disk_without_any_room(harness, tiny_disk):
    filler = os.open(tiny_disk / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(filler, b"x" * 4096):
            pass
    except OSError:
        os.close(filler)
    harness.same_with_and_without([app("leaky")], out="tiny/t.db")
    assert [p for p in tiny_disk.iterdir() if p.name != "filler" and p.stat().st_size > 0] == []


def test_run_on_a_full_disk(harness, tiny_disk):
    without = harness.plain(PROGRAM)
    outcome = harness.layoutspy("run", "-o", tiny_disk / "t.db", "--", *harness.command(PROGRAM, log=False))
    assert outcome.status == without.status
    assert outcome.out.startswith(without.out)
    assert len(outcome.err.splitlines()) <= 2


@pytest.mark.parametrize("when", ["first", "later"])
@pytest.mark.parametrize("limit", [0, 100_000, 300_000, 600_000, 50_000_000])
def test_file_size_limit(harness, limit, when):
    """RLIMIT_FSIZE kills with SIGXFSZ whoever extends a file past it: the program must not notice."""
    outcome = harness.run([fault("filesize"), limit, when, CUDART], harness.environment(), log=False)
    assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", "")
    if when == "first" and limit < 200_000:  # no room for a spool: no recording, and nothing left of one
        assert list(harness.folder.iterdir()) == []
        return
    report = harness.layoutspy("report", harness.out)
    assert (report.status, report.err) == (0, ""), repr(report)
    recorded, lost = recorded_and_lost(harness.out)
    assert recorded + sum(lost.values()) == 18000, lost
    assert set(lost) <= {"file-size-limit"} and (recorded == 18000) == (limit == 50_000_000)


def test_cap_of_the_spool(harness):
    """Without a collector the spool fills up to its cap, and counts what it had no room for."""
    harness.run(PROGRAM, harness.environment(LAYOUTSPY_COLLECTOR="none", LAYOUTSPY_SPOOL_MAX="1M"))
    spool = harness.folder / "trace.db.spool"
    assert spool.stat().st_size <= 1 << 20
    report = harness.layoutspy("report", harness.out)
    assert (report.status, report.err) == (0, "")
    recorded, lost = recorded_and_lost(harness.out)
    assert set(lost) == {"spool-cap"} and recorded > 0
    assert recorded + lost["spool-cap"] == 18000
    assert "spool-cap" in harness.layoutspy("info", harness.out).out


@pytest.mark.parametrize("size", ["1.5G", "abc", "10X", "-1", "1GG", " "])
def test_cap_that_makes_no_sense_is_the_default(harness, size):
    harness.run([app("leaky")], harness.environment(LAYOUTSPY_COLLECTOR="none", LAYOUTSPY_SPOOL_MAX=size))
    assert harness.layoutspy("info", harness.out).status == 0
    harness.assert_true()
    assert harness.trace().lost() == {}


def test_more_stacks_than_a_table_holds(harness):
    """The table gives way to an empty one; what is lost is what the spool has no room for, told once."""
    env = harness.environment(LAYOUTSPY_COLLECTOR="none", LAYOUTSPY_SPOOL_MAX="30M")
    outcome = harness.run([fault("losses"), "460000"], env, standin=False)
    assert outcome.status == 0
    calls = int(re.fullmatch(r"calls (\d+)\n", outcome.out)[1])
    report = harness.layoutspy("info", harness.out)
    assert (report.status, report.err) == (0, "")
    recorded, lost = recorded_and_lost(harness.out)
    assert set(lost) <= {"spool-cap", "stacks"} and lost["spool-cap"] > 0, lost
    assert harness.trace().one("SELECT COUNT(DISTINCT stack) FROM call") > 1 << 17
    assert recorded + lost["spool-cap"] == calls, (recorded, lost)
    without = harness.trace().one("SELECT COUNT(*) FROM call WHERE stack IS NULL")
    assert without == lost.get("stacks", 0), (recorded, without, lost)


def test_collector_keeps_up_under_the_same_cap(harness):
    """Chunks are handed back: with a collector the spool does not grow with the recording."""
    outcome = harness.run([fault("burst"), "1", "1"], harness.environment(LAYOUTSPY_SPOOL_MAX="4M"))
    assert outcome.status == 0
    harness.settle()
    harness.assert_true()
    assert harness.trace().lost() == {}


def test_collector_that_cannot_be_started(harness):
    harness.run([app("leaky")], harness.environment(LAYOUTSPY_COLLECTOR="/no/such/program"))
    outcome = harness.layoutspy("report", harness.out)
    assert (outcome.status, outcome.err) == (0, "")
    harness.assert_true()
    assert harness.leftovers() == []


def test_folder_is_removed_under_the_recording(harness):
    folder = harness.folder / "gone"
    folder.mkdir()
    process = harness.start([fault("burst"), "2", "0.6"], harness.environment(out="gone/t.db"), log=False)
    time.sleep(0.3)
    shutil.rmtree(folder, ignore_errors=True)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, b"done\n", b"")
