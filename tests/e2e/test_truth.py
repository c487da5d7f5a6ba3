"""The judge itself: a trace made by hand that agrees with a log has no differences, and each
disagreement that is put in is found. A judge that cannot say no would let everything pass."""

import json
import sqlite3

import pytest

from table import TABLE, schema
from truth import base_name, compare, compare_all
from truth_log import parse_log
from truth_memory import replay

PID, TID, OTHER = 100, 100, 101
NUMBER = {name: n for n, name in enumerate(TABLE, 1)}
KINDS = {"pageable": 1, "pinned": 2, "device": 3}

# name, status, thread, fields in the table's order, extra keys of the log
CALLS = [
    ("cudaMalloc", 0, TID, [4096, 1000], "device=0\tmemory=device"),
    ("cudaMallocHost", 0, TID, [8192, 512], "device=0\tmemory=pinned"),
    ("cudaMemcpy", 0, TID, [4096, 70000, 100, 1], "device=0\tsrc_kind=pageable\tdst_kind=device\tdirection=H2D"),
    ("cudaMemcpyAsync", 0, OTHER, [4096, 8192, 512, 4, 77],
     "device=0\tsrc_kind=pinned\tdst_kind=device\tdirection=H2D"),
    ("cudaMemcpy", 1, OTHER, [0, 8192, 512, 1], "device=0"),
    ("cudaLaunchKernel", 0, OTHER, [1, 3 | 2 << 32 | 1 << 48, 64 | 1 << 32 | 1 << 48, 16, 77], "device=0"),
    ("cudaStreamCreateWithPriority", 0, OTHER, [99, 1, -3], "device=0"),
    ("cudaFreeHost", 0, TID, [8192], "device=0\tmemory=pinned"),
    ("cudaMalloc", 2, TID, [0, 1 << 60], "device=0"),
    ("cudaDeviceSynchronize", 0, TID, [], "device=0"),
]
KERNEL = "_Z3addPi"


def log_value(name, kind, value):
    if kind == "kernel":
        return KERNEL
    if kind == "dim3":
        return f"{value & 0xffffffff},{value >> 32 & 0xffff},{value >> 48}"
    return str(value)


def write_log(path, calls=CALLS, live=((f"device {4096} {1000}"),)):
    lines = [f"#start {PID} program"]
    for number, (name, status, tid, values, extra) in enumerate(calls, 1):
        fields = "".join(f"\t{field}={log_value(field, kind, value)}"
                         for (field, kind), value in zip(TABLE[name].fields, values))
        lines.append(f"{PID}\t{tid}\t{number}\t{name}\t{status}\tlayoutspy{fields}\t{extra}")
    lines += [f"#live {PID} {text}" for text in live] + [f"#exit {PID}"]
    path.write_text("\n".join(lines) + "\n")


def insert_copy(db, number, name, status, values, extra):
    keys = dict(key.split("=") for key in extra.split("\t"))
    stream = values[4] if len(values) > 4 else 0
    db.execute("INSERT INTO copy VALUES(?,?,?,?,?,?,?,?,?,?,NULL,NULL,?,?,?,?,0)",
               (number, number * 10, 1 if "direction" in keys else 0, KINDS.get(keys.get("src_kind"), 0),
                KINDS.get(keys.get("dst_kind"), 0), values[2], NUMBER[name], int(name.endswith("Async")), stream, 5,
                1, status, values[0], values[1]))


def write_trace(path):
    db = sqlite3.connect(path)
    db.executescript(schema())
    db.executemany("INSERT INTO meta VALUES(?,?)", [("pid", str(PID)), ("start_real_ns", "1")])
    for name, row in TABLE.items():
        fields = json.dumps([{"name": n, "type": t} for n, t in row.fields])
        db.execute("INSERT INTO api VALUES(?,?,?,?,?)", (NUMBER[name], name, row.library, row.cls, fields))
    db.executemany("INSERT INTO thread VALUES(?,?,'t')", [(1, TID), (2, OTHER)])
    db.execute("INSERT INTO kernel VALUES(1, ?, 'add(int*)', 'add')", (KERNEL,))
    for number, (name, status, tid, values, extra) in enumerate(CALLS, 1):
        signed = [v - (1 << 64) if v >= 1 << 63 else v for v in values]
        db.execute("INSERT INTO call VALUES(?,?,5,?,?,?,0,0,NULL,NULL,NULL" + ",?" * 12 + ")",
                   [number, number * 10, 1 if tid == TID else 2, NUMBER[name], status] + signed + [None] * (12 - len(values)))
        if TABLE[name].cls == "copy":
            insert_copy(db, number, name, status, values, extra)
    db.execute("INSERT INTO allocation VALUES(1,10,NULL,1,0,4096,1000,?,NULL,NULL,NULL,0,1,NULL,NULL,1)", (NUMBER["cudaMalloc"],))
    db.execute("INSERT INTO allocation VALUES(2,20,80,4,0,8192,512,?,?,NULL,NULL,0,2,8,0,1)",
               (NUMBER["cudaMallocHost"], NUMBER["cudaFreeHost"]))
    db.commit()
    return db


@pytest.fixture
def pair(tmp_path):
    write_log(tmp_path / "log")
    return tmp_path / "t.db", write_trace(tmp_path / "t.db"), tmp_path / "log"


def judge(pair, allow_tail=0):
    path, db, log = pair
    db.commit()
    return compare(path, parse_log(log)[0], allow_tail)


def test_agreement(pair):
    result = judge(pair)
    assert result.differences == []
    assert (result.counts["calls"], result.counts["copies"], result.counts["pageable copies"]) == (10, 3, 1)
    assert (result.counts["allocations"], result.counts["live"]) == (2, 1)


@pytest.mark.parametrize("change, words", [
    ("DELETE FROM call WHERE id = 1", "the trace has cudaMallocHost"),
    ("DELETE FROM call WHERE id = 10", "not in the trace"),
    ("INSERT INTO call SELECT 11, start_ns, 5, thread, api, status, 0, 0, NULL, NULL, NULL, f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, "
     "f10, f11 FROM call WHERE id = 10", "in the trace only"),
    ("UPDATE call SET id = id + 100 WHERE id = 1", "the trace has cudaMallocHost"),
    ("UPDATE call SET status = 1 WHERE id = 1", "status 1 in the trace"),
    ("UPDATE call SET f1 = 1001 WHERE id = 1", "size 1001"),
    ("UPDATE call SET f0 = NULL WHERE id = 1", "ptr None"),
    ("UPDATE call SET f4 = 0 WHERE id = 4", "stream 0"),
    ("UPDATE call SET f2 = 3 WHERE id = 7", "priority 3"),
    ("UPDATE call SET f1 = f1 + 1 WHERE id = 6", "grid"),
    ("UPDATE call SET f2 = f2 + (1 << 48) WHERE id = 6", "block"),
    ("UPDATE kernel SET name = '_Z3subPi'", "kernel _Z3subPi"),
    ("UPDATE call SET device = 1 WHERE id = 3", "device of the call 1"),
    ("UPDATE call SET thread = 1 WHERE id = 7", "thread"),
    ("UPDATE call SET api = 3 WHERE id = 1", "the trace has cudaMalloc3D"),
    ("UPDATE copy SET src_kind = 2 WHERE id = 3", "src_kind pinned"),
    ("UPDATE copy SET dst_kind = 0 WHERE id = 3", "dst_kind unknown"),
    ("UPDATE copy SET direction = 2 WHERE id = 3", "direction D2H"),
    ("UPDATE copy SET bytes = 99 WHERE id = 3", "bytes 99"),
    ("UPDATE copy SET is_async = 0 WHERE id = 4", "is_async 0"),
    ("UPDATE copy SET stream = 1 WHERE id = 4", "stream 1"),
    ("UPDATE copy SET blocked_ns = 6 WHERE id = 4", "blocked_ns 6"),
    ("UPDATE copy SET status = 0 WHERE id = 5", "status 0 in all_copy"),
    ("DELETE FROM copy WHERE id = 4", "not in all_copy"),
    ("INSERT INTO copy SELECT 10, start_ns, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0 FROM copy WHERE id = 4", "no copy of the log"),
    ("UPDATE allocation SET size = 512 WHERE id = 1", "allocation missing"),
    ("UPDATE allocation SET kind = 2 WHERE id = 1", "allocation missing"),
    ("UPDATE allocation SET device = 1 WHERE id = 1", "allocation missing"),
    ("UPDATE allocation SET end_ns = 50, end_reason = 2 WHERE id = 1", "live_allocation"),
    ("UPDATE allocation SET end_ns = NULL, free_api = NULL WHERE id = 2", "live_allocation"),
    ("UPDATE allocation SET end_ns = 5 WHERE id = 2", "ends before it starts"),
    ("DELETE FROM allocation WHERE id = 2", "allocation missing"),
    ("INSERT INTO allocation SELECT 3, start_ns, end_ns, kind, device, address, size, api, free_api, 0, 0, 0, 1, 1, "
     "end_reason, holder FROM allocation WHERE id = 2", "in all_allocation only"),
    ("DELETE FROM api WHERE name = 'cudaFree'", "cudaFree is missing"),
    ("UPDATE api SET class = 'copy' WHERE name = 'cudaFree'", "api table: cudaFree"),
    ("UPDATE meta SET value = '7' WHERE key = 'pid'", "the trace is of process 7"),
])
def test_each_disagreement_is_found(pair, change, words):
    pair[1].execute(change)
    result = judge(pair)
    assert any(words in text for text in result.differences), str(result)


def test_every_field_of_every_call_counts(pair):
    for number, (name, _, _, values, _) in enumerate(CALLS, 1):
        for field in range(len(values)):
            before = pair[1].execute(f"SELECT f{field} FROM call WHERE id = {number}").fetchone()[0]
            pair[1].execute(f"UPDATE call SET f{field} = ? WHERE id = {number}", (before + 12345,))
            assert judge(pair).total > 0, f"{name} field {field}"
            pair[1].execute(f"UPDATE call SET f{field} = ? WHERE id = {number}", (before,))
    assert judge(pair).total == 0


def test_device_disagrees_about_live_memory(pair):
    write_log(pair[2], live=())
    assert any("live at exit" in text for text in judge(pair).differences)


def test_tail_of_a_killed_process(pair):
    pair[1].executescript("DELETE FROM call WHERE id = 10")
    assert judge(pair, allow_tail=1).differences == []
    pair[1].executescript("DELETE FROM call WHERE id = 9")
    assert judge(pair, allow_tail=1).total > 0


def test_free_that_returns_after_the_address_is_reused(tmp_path):
    calls = [("cudaMalloc", 0, TID, [4096, 1000], "device=0"), ("cudaMalloc", 0, OTHER, [4096, 2000], "device=0"),
             ("cudaFree", 0, TID, [4096], "device=0")]
    write_log(tmp_path / "log", calls)
    lives = replay(parse_log(tmp_path / "log")[0].calls)
    assert [(life.size, life.free_api) for life in lives] == [(1000, "cudaFree"), (2000, None)]


def test_free_that_a_kill_cut_off(tmp_path):
    """The address was handed out again, so the older lifetime is over, though nobody saw its free."""
    calls = [("cudaMalloc", 0, TID, [4096, 1000], "device=0"), ("cudaMalloc", 0, OTHER, [4096, 2000], "device=0")]
    write_log(tmp_path / "log", calls)
    lives = replay(parse_log(tmp_path / "log")[0].calls)
    assert [(life.size, life.how) for life in lives] == [(1000, 2), (2000, None)]


def test_questions_while_capturing(pair):
    with open(pair[2], "a") as log:
        log.write(f"{PID}\t{TID}\t11\tcudaStreamBeginCapture\t0\tlayoutspy\tstream=5\tmode=0\n"
                  f"{PID}\t{TID}\t12\tcudaPointerGetAttributes\t0\tlayoutspy\n")
    assert any("while a stream captured" in text for text in judge(pair).differences)


def test_standin_calls_do_not_count_and_a_torn_line_is_left_out(pair):
    with open(pair[2], "a") as log:
        log.write(f"{PID}\t{TID}\t11\tcudaFree\t0\tstandin\tptr=4096\n{PID}\t{TID}\t12\tcudaFr")
    assert judge(pair).differences == []


def test_process_without_a_trace_and_trace_without_a_process(pair):
    assert any("no trace" in text for text in compare_all([], pair[2]).differences)
    assert compare_all([pair[0]], pair[2]).differences == []
    pair[2].write_text("#start 5 other\n")
    assert any("no call of the table" in text for text in compare_all([pair[0]], pair[2]).differences)


@pytest.mark.parametrize("name, base", [
    ("cudaMemcpyAsync_ptsz", "cudaMemcpyAsync"), ("cudaMemcpy_ptds", "cudaMemcpy"), ("cudaMemcpy3D", "cudaMemcpy3D"),
    ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"), ("cuMemcpyHtoD_v2", "cuMemcpyHtoD")])
def test_names_without_twins_and_versions(name, base):
    assert base_name(name) == base


def test_words_of_the_driver_and_of_libraries(tmp_path):
    """What the log calls by another name; a primary context's end ends its device's memory."""
    (tmp_path / "log").write_text(
        f"#start {PID} program\n"
        f"{PID}\t{TID}\t1\tcuMemAlloc_v2\t0\tapp\tptr=4096\tsize=10\tdevice=1\n"
        f"{PID}\t{TID}\t2\tcuMemAlloc_v2\t0\tapp\tptr=8192\tsize=20\tdevice=0\n"
        f"{PID}\t{TID}\t3\tcuDevicePrimaryCtxRetain\t0\tapp\tdevice=1\tcontext=77\n"
        f"{PID}\t{TID}\t4\tncclAllReduce\t0\tapp\tcomm=5\tstream=6\n"
        f"{PID}\t{TID}\t5\tcufftExecC2C\t0\tapp\tplan=3\n"
        f"{PID}\t{TID}\t6\tcuDevicePrimaryCtxReset_v2\t0\tapp\tdevice=1\n")
    calls = parse_log(tmp_path / "log")[0].calls
    assert [call.keys.get("handle") for call in calls[3:5]] == ["5", "3"]
    assert [(life.size, life.how) for life in replay(calls)] == [(10, 1), (20, None)]
