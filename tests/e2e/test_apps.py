"""The small programs, each written after a real client: recorded whole, unchanged, and reported
with the right kind, amount and line, and no wrong one."""

import subprocess

import pytest

from harness import BUILD, CUDART, PLUGIN, app, site_matches
from table import API, RECORDED, stubs
from truth import parse_log

MIB = 1 << 20
# program: command, expected findings (kind, marker, function, count, bytes), more for on-standin.
# `loss` of leaky: 4 bytes, 50 times: named or not, but never as a problem.
PROGRAMS = {
    "small_copies": ([app("small_copies")], [
        ("pageable-copy", "small_copies.c", "push", "push", 2000, 2000 * 512),
        ("pageable-copy", "small_copies.c", "pull", "pull", 20, 20 * 512)], {}),
    "leaky": ([app("leaky")], [
        ("leak", "leaky.c", "leak", "make_scratch", 1, 64),
        ("pageable-copy", "leaky.c", "batch", "load_batch", 50, 50 * MIB),
        ("pageable-copy", "leaky.c", "loss", "read_loss", 50, 200)], {}),
    "managed": ([app("managed")], [
        ("leak", "managed.c", "lost", "solver_open", 1, 24000)], {}),
    "double_buffer": ([app("double_buffer")], [], {}),
    "thread_streams": ([app("thread_streams")], [
        ("pageable-copy", "thread_streams.c", "in", "work", 180, 180 * 8192),
        ("pageable-copy", "thread_streams.c", "out", "work", 180, 180 * 8192)], {}),
    "local_load": ([app("local_load"), CUDART, PLUGIN], [
        ("leak", "plugin.c", "plugin leak", "plugin_lose", 1, 4096),
        ("pageable-copy", "plugin.c", "plugin copy", "plugin_run", 25, 100)], {"preload_standin": False}),
    "rpath": ([app("rpath")], [
        ("pageable-copy", "rpath.c", "rows", "copy_back", 1, 1600)], {"preload_standin": False}),
    "many_kernels": ([app("many_kernels")], [], {}),
    "async_pools": ([app("async_pools")], [
        ("leak", "async_pools.c", "result", "keep_result", 1, 5000)], {}),
    "graphs": ([app("graphs")], [], {}),
    "peers": ([app("peers")], [
        ("leak", "peers.c", "edges", "open_side", 1, 4096)], {"devices": 2}),
}


@pytest.fixture(params=PROGRAMS)
def program(request):
    return PROGRAMS[request.param]


def test_trace_equals_the_truth(harness, program):
    command, _, how = program
    outcome = harness.same_with_and_without(command, **how)
    assert (outcome.status, outcome.err) == (0, "")
    harness.assert_true()
    trace = harness.trace()
    assert trace.lost() == {}
    assert trace.meta("ended") == "exit"
    assert harness.traces() == [harness.out]


def test_report_names_what_is_wrong_and_nothing_else(harness, program):
    command, expected, how = program
    harness.record(command, **how)
    findings = harness.findings()
    left = list(findings)
    for kind, source, marker, function, count, size in expected:
        found = [f for f in findings if f["kind"] == kind and site_matches(f["site"], source, marker, function)]
        assert len(found) == 1, f"{kind} at {marker}: {findings}"
        assert (found[0]["count"], found[0]["bytes"]) == (count, size), found[0]
        assert found[0]["advice"] and found[0]["title"] and isinstance(found[0]["evidence"], dict)
        left.remove(found[0])
    assert [f for f in left if f["severity"] != "info"] == []


def test_report_for_people(harness, program):
    command, expected, how = program
    harness.record(command, **how)
    outcome = harness.layoutspy("report", harness.out)
    assert (outcome.status, outcome.err) == (0, "")
    assert "\033" not in outcome.out
    for _, source, marker, function, _, _ in expected:
        if marker not in ("loss", "plugin copy", "rows"):  # a few bytes may be left for --all
            assert f"{source}:" in outcome.out and function in outcome.out, outcome.out
    if not expected:
        assert "no problems found" in outcome.out.lower()


def test_plain_sqlite_reads_the_views(harness):
    harness.record([app("leaky")])
    trace = harness.trace()
    rows = trace.rows("SELECT * FROM pageable_copy ORDER BY blocked_ns DESC LIMIT 10")
    assert len(rows) == 10 and all(row["blocked_ns"] > 0 for row in rows)
    live = trace.rows("SELECT kind, device, size, api, site FROM live_allocation")
    assert [tuple(row)[:4] for row in live] == [("device", 0, 64, "cudaMalloc")]
    assert site_matches(live[0]["site"], "leaky.c", "leak", "make_scratch")
    top = trace.rows("SELECT * FROM top_site")
    assert (top[0]["bytes_live"], top[0]["calls"]) == (64, 1)
    assert trace.one("SELECT COUNT(*) FROM coverage WHERE layer LIKE '%cudart%' AND state = 'on'") >= 1
    assert trace.one("SELECT COUNT(*) FROM lost_event") == 0
    # Times: monotone per thread, inside the recording, frees after their allocations.
    assert trace.one("SELECT COUNT(*) FROM call WHERE start_ns < 0 OR duration_ns < 0") == 0
    assert trace.one("SELECT COUNT(*) FROM call a JOIN call b ON b.id = a.id + 1 AND a.thread = b.thread "
                     "WHERE b.start_ns < a.start_ns + a.duration_ns") == 0
    assert trace.one("PRAGMA user_version") == 5
    assert trace.one("PRAGMA journal_mode") == "delete"


def test_memory_of_another_process(harness):
    """Each process is recorded by itself; the handle says what is the same memory in both."""
    outcome = harness.same_with_and_without([app("ipc_pair")])
    assert (outcome.status, outcome.out, outcome.err) == (0, "5 5 7\n", "")
    harness.assert_all_true()
    parent, child = sorted((harness.trace(path) for path in harness.traces()),
                           key=lambda trace: trace.path != str(harness.out))
    opened = child.rows("SELECT a.*, c.f2 AS handle FROM all_allocation a "
                        "JOIN allocation USING (id) JOIN call c ON c.id = allocation.start_call WHERE a.kind = 'ipc'")
    assert [(row["size"], row["end_ns"] is None) for row in opened] == [
        (200000, False), (200000, False), (70000, True)]
    assert opened[0]["address"] == opened[1]["address"]
    assert site_matches(opened[2]["site"], "ipc_pair.c", "kept open", "child")
    exports = parent.rows("SELECT f0 AS ptr, f1 AS handle FROM call JOIN api ON api.id = call.api "
                          "WHERE name = 'cudaIpcGetMemHandle'")
    assert [row["handle"] for row in exports] == [opened[0]["handle"], opened[2]["handle"]]
    made = {row["address"]: row["size"] for row in parent.rows("SELECT * FROM all_allocation")}
    assert [made[row["ptr"]] for row in exports] == [200000, 70000]


def test_memory_of_graphs(harness):
    """From the call that makes the node to the one that frees it, captured or not."""
    harness.record([app("graphs")])
    trace = harness.trace()
    rows = trace.rows("SELECT size, api, free_api, end_ns, site FROM all_allocation WHERE kind = 'graph' ORDER BY size")
    assert [(row["size"], row["api"], row["free_api"]) for row in rows] == [
        (100000, "cudaMallocAsync", "cudaFreeAsync"),
        (200000, "cudaGraphAddMemAllocNode", "cudaFreeAsync"),
        (300000, "cudaMallocAsync", "cudaFreeAsync")]
    for row, marker in zip(rows, ("captured", "built", "self-freeing")):
        assert site_matches(row["site"], "graphs.c", marker, marker.replace("-", "_"))


def absent_functions():
    """Rows that the runtime at hand does not have: names of another version."""
    runtime = next((BUILD / "tests" / "standin").glob("libcudart.so.[0-9]*"))
    exported = subprocess.run(["nm", "-D", "--defined-only", runtime], capture_output=True, text=True, check=True).stdout
    has = {line.split()[-1].split("@")[0] for line in exported.splitlines()}
    before9 = (API / "library_before9.def").read_text()  # called by layers_before9: ./test_cudnn_operands.py
    return {name for name, row in RECORDED.items()
            if row.library == "cudart" and name not in has or f" {name}," in before9}


def only_refused():
    """Rows whose function the simulated device does not do, and the one that takes a whole plan to succeed (../pytorch
    runs it)."""
    return stubs(BUILD) & set(RECORDED) | {"cudnnBackendExecute", "cudnnBackendPopulateCudaGraph",
                                           "cudnnBackendUpdateCudaGraph"}


def test_every_row_of_the_table(harness):
    """No row is left out: each one is called with and without success, and each call is recorded."""
    outcome = harness.same_with_and_without([app("everycall")], devices=2)
    assert (outcome.status, outcome.err) == (0, ""), repr(outcome)
    harness.assert_true()
    process, = [p for p in parse_log(harness.log) if p.calls]
    called = {call.name for call in process.calls}
    succeeded = {call.name for call in process.calls if call.status == 0}
    absent = absent_functions()
    assert set(RECORDED) - called == absent
    assert set(RECORDED) - succeeded <= absent | only_refused()


def test_launches_of_kernels_that_move_data_have_a_site(harness):
    """And those of others have none."""
    harness.record([app("everycall")], devices=2, log=False)
    rows = harness.trace().rows("SELECT name, api, site FROM api_call JOIN kernel ON kernel.id = f0 "
                                "WHERE class = 'launch' AND status = 0")
    moves = [row for row in rows if "clone" in row["name"]]
    assert {row["api"] for row in moves} >= {"cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel"}
    assert [row["site"] for row in moves if "everycall" not in row["site"]] == []
    others = [row for row in rows if row not in moves]
    assert len(others) > 10 and {row["site"] for row in others} == {"site unknown"}


def test_library_calls(harness):
    """With the stream that the handle was told, or that the call names."""
    harness.record([app("everycall")], devices=2, log=False)
    trace = harness.trace()
    stream = trace.one("SELECT f0 FROM api_call WHERE api = 'cudaStreamCreateWithFlags' AND status = 0 AND f1 = 1")
    rows = trace.rows("SELECT library, stream FROM library_call WHERE status = 0 AND (handle != 0 OR library = 'cufft')")
    assert {row["library"] for row in rows} == {"cublas", "cublasLt", "cudnn", "nccl", "cufft"}
    assert len(rows) > 60
    assert {row["stream"] for row in rows if row["library"] != "cufft"} == {stream}
    assert {row["stream"] for row in rows if row["library"] == "cufft"} == {None}


@pytest.mark.parametrize("status", [1, 2, 999])
def test_every_call_refused(harness, status):
    """Every call fails: what is recorded is the refusal, never what an out-parameter held. (Reports
    of PyTorch's cannot fail, and without memory there is nothing to report.)"""
    reports = [row for row in RECORDED.values() if row.library == "c10"]
    more_env = {"STANDIN_FAIL": f"*:*:{status}"}
    outcome = harness.record([app("everycall"), "go-on"], devices=2, more_env=more_env)
    assert outcome.status == 0 and outcome.out.endswith("done\n"), repr(outcome)
    harness.assert_true()
    trace = harness.trace()
    assert trace.one("SELECT COUNT(DISTINCT api) FROM call") == len(RECORDED) - len(reports) - len(absent_functions())
    assert trace.one("SELECT COUNT(*) FROM call WHERE status = 0") == 0
    assert trace.one("SELECT COUNT(*) FROM all_allocation") == 0
    kinds = {f["kind"] for f in harness.findings(above_info=True)}
    assert kinds == ({"oom"} if status == 2 else set())  # 2 is what says that there is no memory


def test_run_records_and_sums_up(harness):
    """`layoutspy run` needs no preload of the user's and prints the summary at the end."""
    without = harness.plain([app("leaky")])
    command = harness.command([app("leaky")])
    outcome = harness.layoutspy("run", "-o", harness.out, "--", *command)
    assert outcome.status == 0
    assert outcome.out.startswith(without.out)
    harness.settle()
    harness.assert_true()
    assert "make_scratch" in outcome.out + outcome.err


def test_two_runs_have_the_same_findings(harness):
    seen = []
    for name in ("one.db", "two.db"):
        harness.record([app("leaky")], out=name, log=False)
        seen.append(sorted((f["kind"], f["site"], f["count"], f["bytes"]) for f in harness.findings(harness.folder / name)))
    assert seen[0] == seen[1] != []
