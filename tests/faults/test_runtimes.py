"""Runtimes that differ from the simulated device's: another one beside it in the process, one that
calls itself, one that has an error to tell. own_runtime.c is the other runtime."""

from collections import Counter

import pytest

from harness import CUDART, FAULTS, fault, site_matches
from truth import parse_log

STANDIN_PLUGIN, OWN_PLUGIN = str(FAULTS / "libtwo_runtimes_standin.so"), str(FAULTS / "libtwo_runtimes_own.so")


@pytest.mark.parametrize("preload_standin", [False, True], ids=["found", "preloaded"])
@pytest.mark.parametrize("what", ["aAbBAB", "bBaABA", "abABA", "abBAB"])
def test_two_runtimes(harness, what, preload_standin):
    """Each plugin's calls go to the runtime that it is linked to, whoever was first."""
    outcome = harness.same_with_and_without([fault("two_runtimes"), what, STANDIN_PLUGIN, OWN_PLUGIN],
                                            preload_standin=preload_standin)
    device, own = what.count("A"), what.count("B")
    assert outcome.out.splitlines()[-1] == (f"own runtime: malloc {5 * own}, free {5 * own}, launch {own}, "
                                            f"module {own}, kernel {own}, gone {own}")
    process, = [p for p in parse_log(harness.log) if p.calls]
    each = {"cudaMalloc": 5, "cudaFree": 5, "cudaLaunchKernel": 1}
    assert Counter(call.name for call in process.calls) == Counter({n: device * c for n, c in each.items()})
    trace = harness.trace()
    recorded = Counter(row["api"] for row in trace.rows("SELECT api FROM api_call WHERE status = 0"))
    assert recorded == Counter({n: (device + own) * c for n, c in each.items()})
    assert {row[0] for row in trace.rows("SELECT name FROM kernel")} == {"kernel_of_standin", "kernel_of_own"}


def test_copy_that_the_runtime_passes_on(harness):
    """It is one copy, though two recorded functions ran: the inner one is marked as such."""
    harness.same_with_and_without([fault("nested")], standin=False)
    trace = harness.trace()
    calls = [tuple(row) for row in trace.rows("SELECT api, flags & 1 FROM api_call ORDER BY start_ns")]
    assert calls == [("cudaMemcpy", 0), ("cudaMemcpyAsync", 1), ("cudaMemcpyAsync", 0)]
    copies = trace.rows("SELECT bytes, site FROM all_copy ORDER BY start_ns")
    assert [row["bytes"] for row in copies] == [1000, 1000]
    # Whichever of the two stands for it, it was the program that copied.
    assert all(site_matches(row["site"], "nested.c", marker, "main")
               for row, marker in zip(copies, ("passed on", "direct")))


def test_copy_while_an_error_is_pending(harness):
    """CUDA cannot be asked about an address then: not known is not pageable."""
    outcome = harness.same_with_and_without([fault("pending"), CUDART])
    assert outcome.out == "pending 1\npending 0\n"
    trace = harness.trace()
    kinds = [tuple(row) for row in trace.rows("SELECT src_kind, dst_kind FROM all_copy ORDER BY start_ns")]
    assert len(kinds) == 4
    for src, dst in kinds[:2]:
        assert {src, dst} <= {"unknown", "pinned", "device"}, kinds
    assert kinds[2:] == [("pinned", "device"), ("device", "pinned")]
    assert trace.one("SELECT COUNT(*) FROM pageable_copy") == 0


def test_modules_that_go_one_by_one(harness):
    """A framework takes its modules away at its end: no walk through all kernels for each."""
    harness.same_with_and_without([fault("many_modules"), "60000", "2"], standin=False, timeout=8)
    assert harness.trace().one("SELECT COUNT(*) FROM call") == 1
