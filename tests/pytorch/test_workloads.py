"""PyTorch as people use it: every workload ends and prints as without us, and its trace equals the
simulated device's log, PyTorch's own block reports included.

Each workload prints one line that is known beforehand, so most need no second run to compare with.
"""

import pytest

from harness import site_matches

BLOCK = ("block", "oom")  # classes of the rows that PyTorch's allocator reports

# name -> what it prints, and how it is run. `compare`: it warns too, so a run without us says what.
# `processes`: traces it leaves. `library`: it wants the one of pluggable.c.
# `allocator`: another than PyTorch's cache is in use, which reports no blocks.
# `idle`: it asks what the device is, and takes no memory there.
WORKLOADS = {
    "imported": {"line": "sum 45", "processes": 0},
    "init": {"line": "1 device, initialized True", "idle": True},
    "randn": {"line": "8 tensors, 267388 numbers"},
    "linear": {"line": "5 gradients, x.grad (32, 64), out (4, 8)"},
    "half_matmul": {"line": " ".join(["128x256 128x128 128x256 128x256"] * 2)},
    "bmm": {"line": "(8, 32, 16) (8, 32, 16) (8, 32, 16) (8, 32, 16) (32, 8, 8) (8, 32, 64)"},
    "conv": {"line": "2x8x64 2x16x16x16 2x16x14x14 2x8x12x12 1x4x6x6x6 2x4x16x16"},
    "channels_last": {"line": "True True (4, 32, 15, 15)"},
    "amp": {"line": "6 steps in ['torch.float16']"},
    "loader": {"line": "144 images, 18 pinned batches"},
    "pinned": {"line": "True False float (128, 64) (64, 256)"},
    "pinned registered": {"line": "True False float (128, 64) (64, 256)", "script": "pinned",
                          "env": {"PYTORCH_CUDA_ALLOC_CONF": "pinned_use_cuda_host_register:True"}},
    "streams": {"line": "8 results, True True True"},
    "graphs": {"line": "replayed, loss (), doubled (16, 4)"},
    "sdpa": {"line": "math efficient math efficient flash 2x4x64x32"},
    "empty_cache": {"line": "MiB 2 0 4 0 36 0 120 0"},
    "transformer": {"line": "4 steps, out (8, 16, 64)"},
    "resnet": {"line": "3 steps, 98522 parameters"},
    "embedding": {"line": "table (1000, 32), bag (500, 16)"},
    "lstm": {"line": "(4, 10, 64) (4, 4, 32) (10, 4, 32) (4, 32)"},
    "profiler": {"line": "3 steps profiled", "compare": True},
    "compiled": {"line": "eager (8, 4), aot_eager (8, 4), cudagraphs (8, 4)"},
    "oom": {"line": "2 caught, 900 MiB held, 600 MiB since", "memory": "1G"},
    "expandable": {"line": "expandable True, caught True", "memory": "2G",
                   "env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}},
    "async_backend": {"line": "cudaMallocAsync, out (32, 8), True", "allocator": "cudaMallocAsync",
                      "env": {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}},
    "no_caching": {"line": "3 steps, 0 bytes reserved", "allocator": "uncached",
                   "env": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}},
    "pluggable": {"line": "True pluggable", "allocator": "pluggable", "library": True},
    "ddp": {"line": "4 steps, 1000 gathered", "compare": True},
    "two_devices": {"line": "2 devices, out on cuda:1, copy on cuda:0", "devices": 2},
    "data_parallel": {"line": "out (16, 4) on cuda:0", "devices": 2, "compare": True},
    "optimizers": {"line": "SGD SGD Adam AdamW Adam RMSprop"},
    "checkpoint": {"line": "True ['cpu', 'cuda']"},
    "threads": {"line": "threads [0, 1, 2, 3]"},
    "spawned": {"line": "[(0, 3), (1, 4), (2, 5)] [0, 0]", "processes": 3},
    "forked": {"line": "('cpu', 10.0) ('device', 'refused') (1000,)"},
    "forked_first": {"line": "children [2, 5], parent (64, 64)", "processes": 3},
    "shared": {"line": "(256, 256) seen, exit 0", "processes": 2},
}


def argv(torch, name):
    workload = WORKLOADS[name]
    return [workload.get("script", name)] + ([torch.library()] if workload.get("library") else [])


def run_how(name):
    workload = WORKLOADS[name]
    return {"more_env": workload.get("env"), "devices": workload.get("devices", 1),
            "memory": workload.get("memory", "2G")}


def check_captures(trace):
    """Work that is captured is recorded, marked, not swallowed; a replay is a launch of its own."""
    assert trace.one("SELECT COUNT(*) FROM api_call WHERE class = 'launch' AND flags & 2") > 10
    assert trace.one("SELECT COUNT(*) FROM api_call WHERE api = 'cudaGraphLaunch'") >= 11
    assert trace.one(f"SELECT COUNT(*) FROM api_call WHERE class IN {BLOCK} AND flags & 2") > 0


def check_oom(trace):
    """What was asked for, what there was, and where; and a stall."""
    assert trace.rows("SELECT requested FROM oom_event WHERE recovered")[0][0] == 600 << 20
    events = trace.rows("SELECT * FROM oom_event WHERE NOT recovered ORDER BY ts_ns")
    assert [row["requested"] for row in events] == [2 << 30, 700 << 20]
    assert {row["allocated"] for row in events} == {600 << 20}
    assert all(site_matches(row["site"], "workloads/oom.py", "oom asked", "<module>") for row in events)
    assert all(row["device_free"] == (1 << 30) - row["reserved"] for row in events)


ALSO = {"graphs": check_captures, "oom": check_oom}


def check_blocks(trace, allocator):
    """PyTorch's cache reports its blocks, and sums that fit them; another allocator is named."""
    reports = trace.one(f"SELECT COUNT(*) FROM api_call WHERE class IN {BLOCK}")
    assert (reports > 0) == (allocator is None), f"{reports} reports of blocks"
    if allocator:
        state, detail = trace.rows("SELECT state, detail FROM coverage WHERE layer = 'pytorch-blocks'")[0]
        assert state == "off" and allocator in detail, (state, detail)
    breaks = trace.rows("SELECT * FROM block_audit WHERE allocated_breaks <> 0 OR reserved_breaks <> 0")
    assert not breaks, [dict(row) for row in breaks]


def check(torch, name, outcome):
    """It printed its line and ended; each process's trace is its log."""
    workload = WORKLOADS[name]
    assert (outcome.status, outcome.out) == (0, workload["line"] + "\n"), repr(outcome)
    torch.assert_all_true()
    traces = [torch.trace(path) for path in torch.traces()]
    assert len(traces) == workload.get("processes", 1)
    for trace in traces:
        assert trace.lost() == {}
        torch.report(trace.path)
    if traces and not workload.get("idle"):
        check_blocks(torch.trace(), workload.get("allocator"))
    if name in ALSO:
        ALSO[name](torch.trace())


@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(torch, name):
    outcome = torch.go(*argv(torch, name), **run_how(name))
    check(torch, name, outcome)
    if WORKLOADS[name].get("compare"):
        without = torch.go_plain(*argv(torch, name), **run_how(name))
        assert outcome.same_as(without), f"with layoutspy: {outcome}\nwithout: {without}"
    else:
        assert outcome.err == ""
