"""A spool that its collector never took in: ingested by the next command, whatever its state. What
is damaged is counted; what is kept is true."""

import os
import random
import shutil
import struct
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from harness import COMMANDS, app, fault, wait_until
from table import TABLE
from truth import Trace, call_differences, compare, parse_log

NO_COLLECTOR = {"LAYOUTSPY_COLLECTOR": "none"}
# include/layoutspy/format.h
SLOTS_AT, SLOT, SLOT_COUNT = 4096, 32, 4096
CHUNK_HEADER, SEALED = 64, 2


class Spool:
    """The parts of a spool file that the tests damage, read by the format's description."""

    def __init__(self, path):
        self.path = path
        self.data = bytearray(path.read_bytes())

    def chunks(self):
        """(offset, size, committed, sealed), in the order of the directory."""
        out = []
        for n in range(SLOT_COUNT):
            offset, size, state = struct.unpack_from("<QQI", self.data, SLOTS_AT + n * SLOT)
            if offset and state:
                committed, = struct.unpack_from("<Q", self.data, offset + 24)
                out.append((offset, size, committed, state == SEALED))
        return out

    def save(self):
        self.path.write_bytes(self.data)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A spool of several chunks, its log; each test takes a copy."""
    from harness import Harness
    harness = Harness(tmp_path_factory.mktemp("spool"))
    outcome = harness.run([fault("errnos")], harness.environment(**NO_COLLECTOR))
    assert outcome.status == 0
    assert (harness.folder / "trace.db.spool").exists()
    return harness


@pytest.fixture(params=list(COMMANDS))
def copy(request, harness, recorded):
    harness.program = COMMANDS[request.param]
    for path in recorded.folder.iterdir():
        shutil.copy(path, harness.folder / path.name)
    return harness


def spool(harness):
    return Spool(harness.folder / "trace.db.spool")


def kept_is_true(harness, allow_wrong=0):
    """What is in the trace is a part of the truth, in its order. Returns (recorded, lost)."""
    process, = [p for p in parse_log(harness.log) if p.calls]
    trace = Trace(harness.out)
    names = dict(map(tuple, trace.rows("SELECT id, name FROM api")))
    recorded = trace.rows("SELECT * FROM call ORDER BY id")

    def equal(number, position):
        if number >= len(recorded) or position >= len(process.calls):
            return False
        row, call = recorded[number], process.calls[position]
        return call.name == names[row["api"]] and not call_differences(TABLE[call.name], call, row, {})

    wrong = position = 0
    for number in range(len(recorded)):
        if equal(number, position):
            position += 1
        elif equal(number + 1, position + 1):  # the one that was hit, which may look like a later one
            wrong += 1
            position += 1
        else:  # what lay between was left out
            found = next((p for p in range(position, len(process.calls)) if equal(number, p)), None)
            if found is None:
                wrong += 1
            else:
                position = found + 1
    assert wrong <= allow_wrong, f"{wrong} calls are no calls of the log, or are there twice"
    lost = trace.lost()
    assert trace.one("PRAGMA integrity_check") == "ok"
    trace.close()
    return len(recorded), lost


@pytest.mark.parametrize("verb", ["report", "info", "sql"])
def test_any_verb_takes_it_in(copy, verb):
    outcome = copy.layoutspy(verb, copy.out, *(["SELECT COUNT(*) FROM call"] if verb == "sql" else []))
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    assert copy.leftovers() == []
    copy.assert_true()


def test_taken_in_once(copy):
    """The spool put back, as after a crash between COMMIT and its removal: nothing comes twice."""
    saved = (copy.folder / "trace.db.spool").read_bytes()
    assert copy.layoutspy("info", copy.out).status == 0
    (copy.folder / "trace.db.spool").write_bytes(saved)
    outcome = copy.layoutspy("info", copy.out)
    assert outcome.status == 0, repr(outcome)
    copy.assert_true()


def test_moved_recording(copy):
    """Both files carried to another folder, as one does from a cluster."""
    other = copy.folder / "elsewhere"
    other.mkdir()
    for name in ("trace.db", "trace.db.spool"):
        shutil.move(copy.folder / name, other / name)
    assert copy.layoutspy("info", other / "trace.db").status == 0
    process, = [p for p in parse_log(copy.log) if p.calls]
    assert compare(other / "trace.db", process).differences == []


def test_trace_was_never_made(copy):
    copy.out.unlink()
    outcome = copy.layoutspy("info", copy.out)
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    assert copy.leftovers() == []
    copy.assert_true()


@pytest.mark.parametrize("cut", range(6))
def test_truncated(copy, cut):
    """Cut anywhere after the directory: chunks that are whole are kept."""
    s = spool(copy)
    chunks = s.chunks()
    assert len(chunks) >= 3, chunks
    chance = random.Random(cut)
    first = chunks[0][0] + chunks[0][1]
    at = chance.randrange(first, len(s.data))
    s.data = s.data[:at]
    s.save()
    outcome = copy.layoutspy("info", copy.out)
    assert outcome.status == 0, repr(outcome)
    calls, lost = kept_is_true(copy)
    assert calls > 0
    whole = sum(size for offset, size, _, _ in chunks if offset + size <= at)
    assert calls >= whole // 400
    ends = max(offset + committed for offset, _, committed, _ in chunks)
    assert (sum(lost.values()) > 0) == (at < ends), (lost, at, ends)


@pytest.mark.parametrize("size", [0, 1, 100, 4096, 100_000])
def test_truncated_in_its_header(copy, size):
    s = spool(copy)
    s.data = s.data[:size]
    s.save()
    outcome = copy.layoutspy("info", copy.out)
    assert outcome.status == 3, repr(outcome)
    assert len(outcome.err.splitlines()) == 1


@pytest.mark.parametrize("flip", range(12))
def test_flipped_in_a_sealed_chunk(copy, flip):
    """One bit anywhere in the records of a sealed chunk: noticed and said, the rest kept.

    A checksum tells that a chunk is damaged, not where: either its records are left out and counted,
    or they are kept with a warning, and then at most the one that was hit is not true.
    """
    s = spool(copy)
    chance = random.Random(1000 + flip)
    sealed = [c for c in s.chunks() if c[3]]
    assert sealed
    offset, _, committed, _ = chance.choice(sealed)
    s.data[chance.randrange(offset + CHUNK_HEADER, offset + committed)] ^= 1 << chance.randrange(8)
    s.save()
    outcome = copy.layoutspy("info", copy.out)
    assert outcome.status == 0, repr(outcome)
    trace = Trace(copy.out)
    said = trace.one("SELECT COUNT(*) FROM coverage WHERE layer = 'spool' AND state = 'partial'")
    calls, lost = kept_is_true(copy, allow_wrong=1 if said else 0)
    assert said or lost.get("damaged", 0) > 0, lost
    sealed_calls = sum(c[2] for c in sealed) // 120
    assert calls > 0 and (lost or calls > sealed_calls)


@pytest.mark.parametrize("flip", range(12))
def test_noise(copy, flip):
    """A stretch of noise anywhere behind the magic: never a crash, a hang or a broken trace."""
    s = spool(copy)
    chance = random.Random(2000 + flip)
    at = chance.randrange(16, len(s.data) - 64)
    length = chance.choice([1, 8, 64])
    s.data[at:at + length] = bytes(chance.randrange(256) for _ in range(length))
    s.save()
    outcome = copy.layoutspy("info", copy.out, timeout=30)
    assert outcome.status in (0, 3), repr(outcome)
    assert len(outcome.err.splitlines()) == (outcome.status != 0)
    if outcome.status == 0:
        trace = Trace(copy.out)
        assert trace.one("PRAGMA integrity_check") == "ok"


def test_newer_spool(copy):
    s = spool(copy)
    struct.pack_into("<I", s.data, 16, 999)
    s.save()
    outcome = copy.layoutspy("info", copy.out)
    assert outcome.status == 3 and len(outcome.err.splitlines()) == 1
    assert (copy.folder / "trace.db.spool").exists()  # a newer layoutspy will want it


def test_other_table(copy):
    s = spool(copy)
    struct.pack_into("<Q", s.data, 24, 12345)
    s.save()
    outcome = copy.layoutspy("info", copy.out)
    assert outcome.status == 3 and len(outcome.err.splitlines()) == 1
    assert (copy.folder / "trace.db.spool").exists()


# ---- a collector that goes along, sanitized ------------------------------------------------------


@pytest.mark.skipif("sanitized" not in COMMANDS, reason="no sanitized build (LAYOUTSPY_ASAN_BUILD)")
def test_sanitized_collector(harness):
    """It has no descriptor to complain to: what a sanitizer finds goes to files."""
    said = harness.folder / "sanitizer"
    found = {f"{name}_OPTIONS": f"{os.environ.get(f'{name}_OPTIONS', '')}:halt_on_error=1:log_path={said}"
             for name in ("ASAN", "UBSAN", "LSAN")}
    collector = {"LAYOUTSPY_COLLECTOR": COMMANDS["sanitized"]}
    outcome = harness.record([fault("burst"), "2", "0.5"], more_env={**collector, **found})
    assert (outcome.status, outcome.out, outcome.err) == (0, "done\n", "")
    assert [p.read_text() for p in harness.folder.glob("sanitizer*")] == []
    harness.assert_true()


# ---- several at once --------------------------------------------------------------------------


def test_four_commands_take_it_in_at_the_same_time(copy):
    commands = [subprocess.Popen([str(copy.program), "info", str(copy.out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                for _ in range(4)]
    for command in commands:
        out, err = command.communicate(timeout=60)
        assert (command.returncode, err) == (0, b""), (out, err)
    assert copy.leftovers() == []
    copy.assert_true()


def test_reading_a_recording_that_goes_on(harness):
    """A reader waits a while for the collector, then reads what is there; the recording is whole."""
    process = harness.start([fault("burst"), "2", "1.5"])
    assert wait_until(lambda: harness.out.exists() and harness.out.stat().st_size > 0)
    begin = time.monotonic()
    outcome = harness.layoutspy("info", harness.out)
    assert time.monotonic() - begin < 8
    assert outcome.status == 0 and len(outcome.err.splitlines()) <= 1, repr(outcome)
    assert process.communicate(timeout=30) == (b"done\n", b"")
    harness.settle()
    harness.assert_true()


def test_reading_gives_up_waiting_for_a_long_recording(harness):
    process = harness.start([fault("burst"), "1", "30"], log=False)
    try:
        assert wait_until(lambda: harness.out.exists() and harness.out.stat().st_size > 0)
        time.sleep(0.5)
        begin = time.monotonic()
        outcome = harness.layoutspy("info", harness.out)
        assert time.monotonic() - begin < 10
        assert outcome.status == 0 and len(outcome.err.splitlines()) <= 1, repr(outcome)
    finally:
        process.kill()
        process.communicate()


# ---- a spool on another disk ------------------------------------------------------------------


@pytest.fixture
def memory_disk(harness):
    """A folder on /dev/shm, which the spool must leave alone, and a TMPDIR to go to."""
    if not os.path.isdir("/dev/shm") or not os.access("/dev/shm", os.W_OK):
        pytest.skip("no /dev/shm")
    other = harness.folder / "tmp"
    other.mkdir()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder), other


@pytest.mark.parametrize("collector", [{}, NO_COLLECTOR], ids=["collector", "no-collector"])
def test_spool_is_not_on_dev_shm(harness, memory_disk, collector):
    folder, other = memory_disk
    out = folder / "t.db"
    outcome = harness.run([app("leaky")], harness.environment(TMPDIR=other, LAYOUTSPY_OUT=out, **collector))
    assert outcome.status == 0
    if collector:
        spools = list(other.iterdir())
        assert len(spools) == 1 and spools[0].stat().st_size > 100_000
        assert (folder / "t.db.spool").read_text() == f"layoutspy spool is at {spools[0]}\n"
        assert harness.layoutspy("info", out).status == 0
    assert wait_until(lambda: not list(other.iterdir()) and [p.name for p in folder.iterdir()] == ["t.db"])
    harness.assert_true(out)
