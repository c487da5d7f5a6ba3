"""Mapped memory and frameworks' blocks, out of C programs; with PyTorch: tests/pytorch."""

import pytest

from harness import app

MIB = 1 << 20
ROUNDS, THREADS = 20, 2


@pytest.fixture
def mapped(harness):
    outcome = harness.same_with_and_without([app("mapped")])
    assert (outcome.status, outcome.err) == (0, "")
    harness.assert_true()
    return harness.trace()


def test_mappings_are_allocations(mapped):
    rows = mapped.rows("SELECT * FROM all_allocation")
    assert {(row["kind"], row["api"]) for row in rows} == {("vmm", "cuMemMap")}
    assert len(rows) == THREADS * (5 * ROUNDS + 1)
    assert [row["size"] for row in rows if row["end_ns"] is None] == [6 * MIB] * THREADS
    assert {row["free_api"] for row in rows} == {"cuMemUnmap", None}
    assert {row["site"].split()[-1] for row in rows} == {"grow"}


def test_ranges_and_physical_memory(mapped):
    kinds = mapped.rows("SELECT kind, COUNT(*) AS count, SUM(end_ns IS NULL) AS live FROM vmm_range GROUP BY kind")
    assert [tuple(row) for row in kinds] == [(1, THREADS, THREADS), (2, THREADS * (5 * ROUNDS + 1), 0)]
    outside = mapped.one("SELECT COUNT(*) FROM allocation AS a WHERE NOT EXISTS (SELECT 1 FROM vmm_range AS r WHERE"
                         " r.kind = 1 AND a.address >= r.address AND a.address + a.size <= r.address + r.size)")
    assert outside == 0


def test_no_framework_no_blocks(mapped):
    assert mapped.meta("allocator") == "none"
    for name in ("block_lifetime", "segment", "reserved_gap", "oom_event"):
        assert mapped.one(f"SELECT COUNT(*) FROM {name}") == 0
    assert mapped.one("SELECT COUNT(*) FROM coverage WHERE layer = 'pytorch-blocks'") == 0


def test_every_report_is_a_block(harness):
    """Reports of every kind from one thread, totals that no allocator would give: counted as they come."""
    assert harness.record([app("everycall")], devices=2).status == 0
    trace = harness.trace()
    reports = trace.one("SELECT COUNT(*) FROM api_call WHERE class = 'block'")
    assert reports > 0
    rows = "SELECT COUNT(*) FROM reserved_gap WHERE call_id IN (SELECT id FROM api_call WHERE class = 'block')"
    assert int(trace.meta("blocks.reports")) == reports == trace.one(rows)
    told = trace.one("SELECT COUNT(*) FROM oom_event WHERE source = 'allocator'")
    assert told == trace.one("SELECT COUNT(*) FROM api_call WHERE class = 'oom'")
