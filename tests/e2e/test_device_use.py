"""How full the device was beside what was recorded: samples of the simulated NVML, untracked growth that
is real, contexts that nobody needs; and an NVML that is not there, fails, hangs or tells nonsense."""

import json
import re
import time

import pytest

from harness import BUILD, app, site_matches
from truth import parse_log

MIB = 1 << 20
CONTEXT = 300 * MIB
NVML = BUILD / "tests" / "standin" / "libs" / "libnvidia-ml.so.1"
FAKE = BUILD / "tests" / "unit" / "libfake_nvml.so"
PIECE = 32 * MIB
KINDS = ("untracked-growth", "stray-context")


def play(harness, what, devices=1, library=NVML, **env):
    env = {"LAYOUTSPY_NVML": str(library), "STANDIN_CONTEXT_BYTES": str(CONTEXT), **env}
    outcome = harness.record([app("device_use"), what], more_env=env, devices=devices, memory="24G")
    assert outcome.status == 0, repr(outcome)
    return int(re.search(r"hidden=(\d+)", outcome.out)[1])


def coverage(harness):
    return harness.trace().rows("SELECT state, detail FROM coverage WHERE layer = 'device-memory'")[0]


def found(harness):
    told = harness.report()
    skipped = {s["kind"]: s["reason"] for s in told["skipped"] if s["kind"] in KINDS}
    return [f for f in told["findings"] if f["kind"] in KINDS], skipped


def by_the_driver(harness):
    """Bytes that the log says were taken by the driver's own function, by the program itself."""
    return sum(call.number("size") for p in parse_log(harness.log) for call in p.calls
               if call.name == "cuMemAlloc_v2" and call.by == "app" and call.status == 0)


def test_steady_use(harness):
    assert play(harness, "steady") == 0
    assert found(harness) == ([], {})
    state, detail = coverage(harness)
    samples = int(detail.split()[0])
    assert state == "on" and 10 <= samples <= 60, detail
    trace = harness.trace()
    assert trace.one("SELECT COUNT(*) FROM device_use WHERE source = 'nvml'") == samples
    assert trace.one("SELECT COUNT(*) FROM device_use WHERE source = 'program'") == 1
    rows = trace.rows("SELECT * FROM device_memory WHERE source = 'nvml' AND own_process > 0")
    assert len(rows) >= samples - 2
    assert {row["context"] for row in rows} <= {CONTEXT, CONTEXT - PIECE, CONTEXT + PIECE}
    assert all(row["other_processes"] == 0 for row in rows)
    assert sum(row["unknown"] == 0 for row in rows) >= 0.8 * len(rows)


def test_growth_beside_all_hooks(harness):
    hidden = play(harness, "hidden")
    (growth,), skipped = found(harness)
    assert skipped == {} and growth["kind"] == "untracked-growth"
    assert (growth["site"], growth["severity"]) == ("site unknown", "warning")  # 960 MiB of 24 GiB
    assert growth["evidence"]["shape"] == "goes on" and growth["evidence"]["confidence"] == "seen"
    assert hidden == 30 * PIECE == by_the_driver(harness)
    # What came in the first quarter, or the first two steps, may be a warm-up.
    assert 0.6 * hidden <= growth["bytes"] <= hidden
    assert 200 * MIB <= growth["evidence"]["bytes_per_second"] <= 330 * MIB
    last = harness.trace().rows("SELECT * FROM device_memory WHERE source = 'nvml' ORDER BY ts_ns DESC")[0]
    beside = last["unknown"] + last["context"]  # whatever was there before the first sample
    assert CONTEXT + hidden - 8 * PIECE <= beside <= CONTEXT + hidden + PIECE
    assert len(growth["evidence"]["jumps"]) == 5


def test_growth_by_the_programs_own_questions(harness):
    hidden = play(harness, "asks", library="off")
    (growth,), skipped = found(harness)
    assert growth["kind"] == "untracked-growth" and set(skipped) == {"stray-context"}
    assert growth["evidence"]["source"] == "program" and growth["evidence"]["confidence"] == "linked"
    assert growth["severity"] == "warning" and 0.6 * hidden <= growth["bytes"] <= hidden
    state, detail = coverage(harness)
    assert state == "partial" and "31 of the program's own" in detail and "LAYOUTSPY_NVML=off" in detail


@pytest.mark.parametrize("what", ["managed", "early"])
def test_no_growth(harness, what):
    play(harness, what)
    assert found(harness) == ([], {})


def test_others_are_told_apart(harness):
    play(harness, "steady", STANDIN_NVML_OTHER=f"1:{5 << 30}")
    assert found(harness) == ([], {})
    row = harness.trace().rows("SELECT * FROM device_memory WHERE source = 'nvml' AND own_process > 0")[-1]
    assert row["other_processes"] == 5 << 30 and row["unknown"] <= PIECE
    text = harness.layoutspy("memory", harness.out).out
    assert "in use" in text and "5.00 GiB" in text, text


def test_a_thread_that_pins_on_device_0(harness):
    play(harness, "stray", devices=2)
    (stray,), skipped = found(harness)
    assert skipped == {} and stray["kind"] == "stray-context" and stray["severity"] == "warning"
    assert stray["bytes"] == CONTEXT == stray["gain_bytes"]
    assert site_matches(stray["site"], "device_use.c", "stray", "pin")
    evidence = stray["evidence"]
    assert (evidence["device"], evidence["works_on"], evidence["made_by"]) == (0, 1, "cudaHostAlloc")
    assert not evidence["main_thread"] and evidence["shape"] == "context only"
    assert evidence["confidence"] == "seen"


def test_a_buffer_that_was_loaded_on_device_0(harness):
    play(harness, "loads", devices=2)
    (stray,), _ = found(harness)
    assert stray["kind"] == "stray-context" and stray["evidence"]["shape"] == "context and tensors"
    assert abs(stray["bytes"] - CONTEXT) <= 2 * MIB and "map_location" in stray["advice"]
    assert site_matches(stray["site"], "device_use.c", "loads", "main")


def test_both_devices_at_work(harness):
    play(harness, "both", devices=2)
    assert found(harness) == ([], {})


# ---- an NVML that is no help --------------------------------------------------------------


def test_no_nvml(harness):
    play(harness, "steady", library="/nowhere/libnvidia-ml.so.1")
    state, detail = coverage(harness)
    assert state == "partial" and "no NVML" in detail and detail.startswith("0 samples")
    findings, skipped = found(harness)
    assert findings == [] and "1 moment only" in skipped["untracked-growth"]


def test_another_devices_nvml(harness):
    """Of 24 GiB as well, but the process has nothing there; then of another size."""
    play(harness, "steady", library=FAKE, CUDA_VISIBLE_DEVICES="0")
    state, detail = coverage(harness)
    assert state in ("on", "partial") and found(harness)[0] == []
    harness.out.unlink()
    harness.log.unlink()
    outcome = harness.record([app("device_use"), "steady"], memory="40G", more_env={"LAYOUTSPY_NVML": str(FAKE)})
    assert outcome.status == 0
    state, detail = coverage(harness)
    assert state == "partial" and "left out" in detail
    assert harness.trace().one("SELECT COUNT(*) FROM device_use WHERE source = 'nvml'") == 0


@pytest.mark.parametrize("mode, words", [("hang-init", "did not answer within 2 s"), ("hang-later", "did not answer"),
                                         ("fail", "error 9"), ("many", "1000000 devices")])
def test_nvml_that_does_not_work(harness, mode, words):
    begin = time.monotonic()
    play(harness, "steady", library=FAKE, FAKE_NVML=mode)  # waits for the trace
    assert time.monotonic() - begin < 15
    state, detail = coverage(harness)
    assert state == "partial" and words in detail
    harness.assert_true()
    assert harness.collector() is None


def test_nvml_that_tells_nonsense(harness):
    play(harness, "steady", library=FAKE, FAKE_NVML="nonsense")
    assert harness.trace().one("SELECT COUNT(*) FROM device_use WHERE source = 'nvml'") == 0
    assert coverage(harness)[0] == "partial"
    harness.assert_true()


def test_screens(harness):
    play(harness, "hidden")
    memory = harness.layoutspy("memory", harness.out)
    assert memory.status == 0 and "in use" in memory.out and "unknown" in memory.out, memory.out
    told = json.loads(harness.layoutspy("memory", "--json", harness.out).out)["devices"][0]["device_use"]
    assert told["source"] == "nvml" and told["used"] >= told["tracked"] + told["unknown"]
    report = harness.layoutspy("report", harness.out)
    assert report.status == 0 and "untracked-growth" in report.out, report.out
