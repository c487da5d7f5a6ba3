"""torch.profiler in a program that is recorded: its events are those that it has without layoutspy, and the trace has
GPU times before and after it, and the gap between."""

import contextlib
import sqlite3

import pytest

SINGLE = {"STANDIN_CUPTI": "13.0"}
SEVERAL = {"STANDIN_CUPTI": "13.3", "STANDIN_CUPTI_MULTI": "1"}  # the driver allows several, PyTorch's profiler does not
VERSIONS = {"single": SINGLE, "several": SEVERAL}


def rows(torch, sql):
    with contextlib.closing(sqlite3.connect(torch.out)) as db:
        return db.execute(sql).fetchall()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["once", "twice", "schedule", "first"])
def test_the_profiler_and_the_trace(torch, how, version):
    plain = torch.go_plain("profiled_steps", how, more_env=VERSIONS[version])
    recorded = torch.go("profiled_steps", how, more_env=dict(VERSIONS[version], LAYOUTSPY_CUPTI="full"), log=False)
    assert (plain.status, recorded.status) == (0, 0), recorded
    assert recorded.out == plain.out
    assert "CUDA" in plain.out and "on the GPU 0" not in plain.out
    assert "CUPTI" not in recorded.err
    copies = dict(rows(torch, "SELECT bytes / 4, COUNT(*) FROM gpu_copy WHERE call_id IS NOT NULL AND end_ns > start_ns "
                              "AND bytes >= 40000 GROUP BY bytes"))
    outside = {"once": [10000, 10001], "twice": [10000, 10001, 10002], "schedule": [10000, 10001], "first": [10001]}[how]
    assert [size for size in copies if size < 20000] == outside
    if how != "schedule":  # there the steps that are waited for are the recording's own
        assert max(copies) < 20000, copies
    gaps = rows(torch, "SELECT start_ns, end_ns FROM cupti_gap WHERE reason LIKE 'another CUPTI client%'")
    assert len(gaps) >= (2 if how == "twice" else 1) and all(end is None or end > start for start, end in gaps)
    last = rows(torch, "SELECT COUNT(*) FROM kernel_run WHERE start_ns > (SELECT MAX(end_ns) FROM cupti_gap)")
    assert last[0][0] > 0
