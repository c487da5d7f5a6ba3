"""PyTorch that runs out of memory: its allocator's sequences against the log, figure by figure, and
the exception as it is without us."""

import signal

import pytest

from harness import site_matches
from truth import parse_log

MIB = 1 << 20
REPORT = "_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE"
BLOCK = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
SLOW = {"STANDIN_DELAY_US": "30000"}  # a kernel: its stream is busy when its memory is given back
FAILED, GIVEN_BACK, WAITED, ASKED, SUCCEEDED, REPORTED = range(1, 7)

# Of each oom: requested (MiB), source, recovered, and its steps with the bytes (MiB) of those that have some.
WAYS = {
    "plain": ("plain", {}, [(700, 1, 0, "1:700 2:60 1:700 4:424 6:700")]),
    "stall": ("stall", {}, [(600, 2, 1, "1:600 2:100 2:100 2:100 2:100 5:600")]),
    "limited": ("limited", {}, [(400, 1, 0, "2:100 2:100 4:824 6:400")]),
    "pending": ("pending", SLOW, [(500, 2, 1, "1:500 3 2:400 2:2 5:500")]),
    "fitting": ("fitting", SLOW, [(300, 1, 0, "1:300 3 2:2 1:300 4:124 6:300")]),
    "backward": ("backward", {}, [(700, 2, 1, "1:700 2:256 5:700"), (256, 1, 0, "1:256 1:256 4:66 6:256")]),
    "uncaught": ("uncaught", {}, [(706, 1, 0, "1:706 1:706 4:424 6:706")]),
    "threads": ("threads", {}, 12 * [(2000, 1, 0, "1:2000 1:2000 4:624 6:2000")]),
    "expandable": ("plain", EXPANDABLE, [(700, 1, 0, "1:20 3 2:20 2:20 2:20 1:20 4:424 6:700")]),
    "expandable-stall": ("stall", EXPANDABLE, [(600, 2, 1, "1:20" + 4 * (" 3" + 5 * " 2:20") + " 5:600")]),
    "expandable-limited": ("limited", EXPANDABLE, [(400, 1, 0, "3" + 10 * " 2:20" + " 4:824 6:400")]),
    "expandable-threads": ("threads", EXPANDABLE, 12 * [(2000, 1, 0, "1:20 1:20 4:624 6:2000")]),
    "async": ("plain", ASYNC, [(700, 2, 0, "1:700 4:424")]),
    "uncached": ("plain", UNCACHED, [(700, 2, 0, "1:700")]),
}
WITHOUT_REPORTS = ("async", "uncached")


def run_how(name):
    script, env, _ = WAYS[name]
    return ("ooms", script), {"more_env": env, "memory": "1G"}


def steps_of(trace, oom):
    return " ".join(f"{row['kind']}" if row["bytes"] is None else f"{row['kind']}:{row['bytes'] >> 20}"
                    for row in trace.rows("SELECT * FROM oom_call WHERE oom = ? ORDER BY id", oom))


def check_reports(trace, process):
    """Each report of the allocator is a row, with its own figures, those of the request before it too."""
    reports = [call for call in process.calls if call.name == REPORT]
    rows = trace.rows("SELECT * FROM oom WHERE source = 1 ORDER BY id")
    figures = [(row["requested"], row["allocated"], row["reserved"], row["device"]) for row in rows]
    want = [tuple(call.number(key) for key in ("size", "allocated", "reserved", "device")) for call in reports]
    assert sorted(figures) == sorted(want)
    told = [call.number("free") for call in process.calls if call.name == "cudaMemGetInfo"]
    assert sorted(row["device_free"] for row in rows) == sorted(told)[:len(rows)]
    assert {row["device_total"] for row in rows} <= {1 << 30}


def check_sums(trace, process):
    """Every request that failed is an attempt of one of them; what was given back is what the log has."""
    failures = [call for call in process.calls if call.status == 2]
    assert trace.one("SELECT SUM(attempts) FROM oom") == len(failures)
    assert trace.one("SELECT COUNT(*) FROM oom_call WHERE kind = 1") == len(failures)
    for row in trace.rows("SELECT * FROM oom"):
        sums = trace.rows("SELECT COUNT(*), SUM(bytes) FROM oom_call WHERE oom = ? AND kind = 2", row["id"])[0]
        assert (row["flushed_calls"], row["flushed_bytes"]) == (sums[0], sums[1] or 0)
        waited = trace.one("SELECT SUM(duration_ns) FROM oom_call JOIN call USING (id) WHERE oom = ? AND kind = 3",
                           row["id"])
        assert row["waited_ns"] == (waited or 0)
        calls = trace.rows("SELECT MIN(id), MAX(id) FROM oom_call WHERE oom = ?", row["id"])[0]
        assert row["first_call"] == calls[0] and row["last_call"] >= calls[1]


@pytest.mark.parametrize("name", WAYS)
def test_ways(torch, name):
    arguments, how = run_how(name)
    outcome = torch.go(*arguments, **how)
    without = torch.go_plain(*arguments, **how)
    assert outcome.same_as(without), f"with layoutspy: {outcome}\nwithout: {without}"
    assert ("emory" in outcome.out + outcome.err) == ("stall" not in name and "pending" not in name)
    torch.assert_true()
    trace, process = torch.trace(), parse_log(torch.log)[0]
    rows = trace.rows("SELECT * FROM oom ORDER BY id")
    want = WAYS[name][2]
    assert [(row["requested"] >> 20, row["source"], row["recovered"], steps_of(trace, row["id"])) for row in rows] == want
    check_reports(trace, process)
    check_sums(trace, process)
    assert {row["owner"] for row in rows} == {None}
    for row in rows:
        if name in WITHOUT_REPORTS:
            assert (row["reserved"], row["cached"], row["pending"]) == (None, None, None)
        else:
            assert row["allocated"] + row["pending"] + row["cached"] == row["reserved"]
    assert trace.lost() == {}


def test_what_there_was(torch):
    """Pending at a request that waits for it; the hole that would have done."""
    torch.go("ooms", "pending", more_env=SLOW, memory="1G", out="pending.db")
    row = torch.trace(torch.folder / "pending.db").rows("SELECT * FROM oom")[0]
    assert (row["allocated"], row["pending"], row["cached"]) == (300 * MIB, 400 * MIB, 2 * MIB)
    torch.go("ooms", "fitting", more_env=SLOW, memory="1G")
    trace = torch.trace()
    row = trace.rows("SELECT * FROM oom")[0]
    assert (row["allocated"], row["pending"], row["cached"]) == (580 * MIB, 0, 320 * MIB)
    assert row["largest_hole"] == 300 * MIB == row["requested"]
    moment = trace.rows("SELECT * FROM moment WHERE oom = ?", row["id"])[0]
    assert (moment["kind"], moment["allocated"], moment["reserved"]) == (3, row["allocated"], row["reserved"])
    states = trace.rows("SELECT * FROM segment_state WHERE moment = ? ORDER BY size", moment["id"])
    assert [(s["size"] >> 20, s["live"] >> 20, s["hole"] >> 20, s["blocks"]) for s in states] == \
        [(400, 80, 300, 1), (500, 500, 0, 1)]
    assert all(s["live"] + s["pending"] + s["free"] == s["size"] for s in trace.rows("SELECT * FROM segment_state"))


def test_where(torch):
    torch.go("ooms", "backward", memory="1G")
    sites = [row["site"] for row in torch.trace().rows("SELECT site FROM oom_event ORDER BY ts_ns")]
    assert site_matches(sites[1], "workloads/ooms.py", "forward", "backward"), sites  # whose backward it was


def test_killed_right_after(torch):
    outcome = torch.go("ooms", "killed", memory="1G")
    assert outcome.status == -signal.SIGKILL
    row = torch.trace().rows("SELECT * FROM oom")[0]
    assert (row["requested"], row["recovered"], row["attempts"]) == (706 * MIB, 0, 2)


def test_workspaces(torch):
    """cuBLAS's handle, its streams, and the block that it was lent; only what changed."""
    script = torch.folder / "handles.py"
    script.write_text("import torch\n"
                      "a, stream = torch.randn(64, 64, device='cuda'), torch.cuda.Stream()\n"
                      "for _ in range(3):\n"
                      "    b = a @ a\n"
                      "with torch.cuda.stream(stream):\n"
                      "    b = a @ a\n")
    assert torch.go(script, memory="1G").status == 0
    trace = torch.trace()
    rows = trace.rows("SELECT * FROM library_handle ORDER BY id")
    assert {row["library"] for row in rows} == {"cublas"}
    assert len({row["handle"] for row in rows}) == 1
    assert [row["kind"] for row in rows if row["kind"] != 2] == [1, 3, 4, 3, 4]
    lent = [row for row in rows if row["kind"] == 4]
    blocks = [trace.rows("SELECT address, size FROM block WHERE id = ?", row["block"])[0] for row in lent]
    assert [block["address"] for block in blocks] == [row["address"] for row in lent]
    assert all(block["size"] >= row["size"] for block, row in zip(blocks, lent))
    streams = [row["stream"] for row in rows if row["kind"] == 3]
    assert [row["stream"] for row in lent] == streams and len(set(streams)) == 2
