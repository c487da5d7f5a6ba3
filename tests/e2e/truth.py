"""The judge: compares a trace with the simulated device's ground-truth log.

    result = compare(trace, process)        process: one of parse_log(log)
    assert not result.differences

Every call of the table that the log holds must be in the trace once, in the order of its thread,
with the status and every recorded field the log says; copies with their memory kinds, direction and
bytes; allocations with their kinds, sizes, lifetimes. It works from the log and the table's text
alone: nothing here asks the product what to expect.
"""

import json
import re
import sqlite3
from collections import Counter, defaultdict

from table import TABLE
from truth_blocks import check_blocks
from truth_log import U64, Handles, parse_log
from truth_memory import array_elements, check_allocations

SHOWN = 40  # differences kept as text


class Result:
    def __init__(self):
        self.differences, self.total, self.counts = [], 0, Counter()

    def add(self, text):
        self.total += 1
        if len(self.differences) < SHOWN:
            self.differences.append(text)

    def __str__(self):
        more = self.total - len(self.differences)
        return "\n".join(self.differences + ([f"... and {more} more"] if more else []))


class Trace:
    def __init__(self, path):
        self.path = str(path)
        self.db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        self.db.row_factory = sqlite3.Row

    def rows(self, sql, *values):
        return self.db.execute(sql, values).fetchall()

    def one(self, sql, *values):
        row = self.db.execute(sql, values).fetchone()
        return row[0] if row else None

    def meta(self, key):
        return self.one("SELECT value FROM meta WHERE key = ?", key)

    def pid(self):
        return int(self.meta("pid"))

    def lost(self):
        return {row["reason"]: row["count"] for row in self.rows("SELECT * FROM lost_event")}

    def close(self):
        self.db.close()


# ---- the table in the trace -----------------------------------------------------------------


def _check_api(trace, result):
    """The trace's own copy of the table; returns id -> row of ours."""
    ids = {}
    for row in trace.rows("SELECT * FROM api"):
        ours = TABLE.get(row["name"])
        if ours is None:
            result.add(f"api table: {row['name']} is no row of the table")
            continue
        fields = [(f["name"], f["type"]) for f in json.loads(row["fields"] or "[]")]
        if (row["library"], row["class"], fields) != (ours.library, ours.cls, ours.fields):
            result.add(f"api table: {row['name']} is {row['library']} {row['class']} {fields}")
        ids[row["id"]] = ours
    for name in set(TABLE) - {row.name for row in ids.values()}:
        result.add(f"api table: {name} is missing")
    return ids


# ---- calls ----------------------------------------------------------------------------------


def _dim3(packed):
    return f"{packed & 0xffffffff},{packed >> 32 & 0xffff},{packed >> 48 & 0xffff}"


def _field_differs(kind, recorded, said, kernels):
    if kind == "kernel":
        return (kernels.get(recorded) or "") != said
    if recorded is None:
        return True
    if kind == "dim3":
        return _dim3(recorded % U64) != said
    return recorded % U64 != int(said) % U64


def call_differences(row, call, recorded, kernels):
    """What a row of the trace's `call` table says otherwise than the log."""
    out = []
    if recorded["status"] != call.status:
        out.append(f"status {recorded['status']}")
    device = call.number("device")
    # cudaSetDevice: `device` is the argument, not the device of the call; of a mapping, its memory's.
    if device is not None and not any(n == "device" for n, _ in row.fields) and not row.cls.startswith("vmm"):
        if recorded["device"] != device:
            out.append(f"device of the call {recorded['device']}")
    for index, (name, kind) in enumerate(row.fields):
        if name not in call.keys:
            if call.status == 0 and (call.keys or row.cls != "library_call"):  # of a stub it has nothing
                out.append(f"{name} is not in the log")
        elif _field_differs(kind, recorded[f"f{index}"], call.keys[name], kernels):
            value = recorded[f"f{index}"]
            out.append(f"{name} {kernels.get(value) if kind == 'kernel' else value}")
    return out


def _trace_calls(trace, ids, logged):
    """tid -> its calls in order of completion. A tid used twice is one sequence, as in the log."""
    tids = {row["id"]: row["tid"] for row in trace.rows("SELECT id, tid FROM thread")}
    threads, handles = defaultdict(list), Handles()
    for row in trace.rows("SELECT * FROM call ORDER BY id"):
        api = ids.get(row["api"])
        if api and handles.repeats(api.name, row["status"], {n: row[f"f{i}"] for i, (n, _) in enumerate(api.fields)}):
            continue  # two threads, or more handles than the library keeps apart
        brought = row["flags"] & 9 == 9 or (row["flags"] & 8 and api and api.cls == "context" and api.name not in logged)
        if brought:  # as CUPTI tells, by another call: a context, a library's kernel
            continue
        threads[tids.get(row["thread"], -1)].append(row)
    return threads


def _compare_thread(tid, truth, recorded, ids, kernels, allow_tail, result, pairs):
    for index in range(max(len(truth), len(recorded))):
        where = f"thread {tid} call {index}"
        if index >= len(recorded):
            missing = len(truth) - index
            if missing > allow_tail:
                result.add(f"{where}: {missing} calls are not in the trace, first {truth[index]}")
            else:
                result.counts["in flight"] += missing
            return
        name = ids[recorded[index]["api"]].name if recorded[index]["api"] in ids else "??"
        if index >= len(truth):
            result.add(f"{where}: {len(recorded) - index} calls are in the trace only, first {name}")
            return
        if name != truth[index].name:
            # One call too few or too many moves all that follow: say the first, leave the rest.
            result.add(f"{where}: the trace has {name}, the log {truth[index]}")
            return
        row = TABLE[name]
        for text in call_differences(row, truth[index], recorded[index], kernels):
            result.add(f"{where}: {text} in the trace, the log says {truth[index]}")
        pairs.append((truth[index], recorded[index]))


# ---- copies ---------------------------------------------------------------------------------


def base_name(name):
    """Without the suffixes of twins and of versions."""
    return re.sub(r"(_v\d)?(_ptds|_ptsz|_64)?$", "", name)


def _copy_bytes(call, arrays):
    """Bytes that a copy moves, None where a refused one leaves it open. 3D rows count texels where
    an array takes part."""
    if "bytes" in call.keys:
        return call.number("bytes")
    size = call.number("width", 0) * call.number("height", 0) * call.number("depth", 0)
    for side in ("dst_array", "src_array"):
        if call.number(side):
            return size * arrays[call.number(side)] if call.number(side) in arrays else None
    return size


def _check_copy(call, recorded, copy, arrays, result):
    if copy is None:
        result.add(f"copy {recorded['id']}: not in all_copy: {call}")
        return
    capturing = recorded["flags"] & 2
    want = {
        "api": call.name,
        "status": call.status,
        "stream": call.number("stream", 0),
        "is_async": int(base_name(call.name).endswith("Async")),
        "blocked_ns": recorded["duration_ns"],
        "bytes": _copy_bytes(call, arrays),
    }
    if base_name(call.name) in ("cudaMemcpy2D", "cudaMemcpy2DAsync") and want["bytes"]:
        want.update(row_bytes=call.number("width"), dst_pitch=call.number("dpitch"), src_pitch=call.number("spitch"))
    if call.status == 0:
        for key in ("src_kind", "dst_kind", "direction"):
            if key in call.keys:
                want[key] = call.keys[key]
            elif want["bytes"]:
                result.add(f"copy {recorded['id']}: the log lacks {key}: {call}")
    for key, value in want.items():
        if value is None:
            continue
        got = copy[key]
        if key == "stream" and got is None:
            got = 0
        if got == value or (got == "unknown" and capturing and call.keys.get("src_kind") != "device"):
            continue
        result.add(f"copy {recorded['id']}: {key} {got} in all_copy, should be {value}: {call}")


def _check_copies(trace, pairs, arrays, result):
    copies = {row["call_id"]: row for row in trace.rows("SELECT * FROM all_copy")}
    if len(copies) != trace.one("SELECT COUNT(*) FROM all_copy"):
        result.add("all_copy: one call has several rows")
    expected = set()
    pageable = set()
    for call, recorded in pairs:
        if TABLE[call.name].cls != "copy":
            continue
        expected.add(recorded["id"])
        _check_copy(call, recorded, copies.get(recorded["id"]), arrays, result)
        sides = {"H2D": "src_kind", "D2H": "dst_kind"}
        side = sides.get(call.keys.get("direction"))
        moved = call.status == 0 and _copy_bytes(call, arrays) != 0
        if moved and side and call.keys.get(side) == "pageable" and not recorded["flags"] & 2:
            pageable.add(recorded["id"])
        result.counts["copies"] += 1
    for extra in set(copies) - expected:
        result.add(f"copy {extra}: in all_copy, but no copy of the log")
    got = {row[0] for row in trace.rows("SELECT call_id FROM pageable_copy")}
    if got != pageable:
        result.add(f"pageable_copy: {len(got)} rows, should be {len(pageable)}")
    result.counts["pageable copies"] = len(pageable)


# ---- all of it ------------------------------------------------------------------------------


def _check_questions(process, result):
    """Layoutspy may ask nothing of CUDA while a stream captures; what a descriptor says is no such question."""
    events = sorted(process.calls + process.own, key=lambda call: call.sequence)
    capturing = 0
    for call in events:
        cls = TABLE[call.name].cls if call.name in TABLE else None
        if call.status == 0 and cls == "capture_begin":
            capturing += 1
        elif cls == "capture_end":
            capturing = max(0, capturing - 1)
        elif cls is None and capturing and not re.search("Get(Attribute|PointerMode_v2)$|^ncclCommCount$", call.name):
            result.add(f"layoutspy asked while a stream captured: {call}")
    result.counts["questions"] = len(process.own)


def compare(path, process, allow_tail=0):
    """Differences between a trace and one process of the log; none: `differences` is empty.

    allow_tail: calls per thread that may be missing at its end, for a killed process: the log has
    a call before its record is committed.
    """
    result, trace, pairs = Result(), Trace(path), []
    if trace.pid() != process.pid:
        result.add(f"the trace is of process {trace.pid()}, the log of {process.pid}")
    ids = _check_api(trace, result)
    kernels = {row["id"]: row["name"] for row in trace.rows("SELECT id, name FROM kernel")}
    truth, recorded = process.by_thread(), _trace_calls(trace, ids, {call.name for call in process.calls})
    for tid in sorted(set(truth) | set(recorded)):
        _compare_thread(tid, truth.get(tid, []), recorded.get(tid, []), ids, kernels, allow_tail,
                        result, pairs)
    in_trace = {id(call) for call, _ in pairs}
    _check_copies(trace, pairs, array_elements(process.calls), result)
    if not result.total:  # lifetimes follow from the calls: say the cause, not the consequence
        order = [call for call in process.calls if id(call) in in_trace]
        check_allocations(trace, process, order, result)
        check_blocks(trace, order, lambda name: TABLE[name].cls, result)
    _check_questions(process, result)
    if trace.one("PRAGMA integrity_check") != "ok":
        result.add("integrity_check fails")
    result.counts["calls"] = len(process.calls)
    result.counts["recorded"] = trace.one("SELECT COUNT(*) FROM call")
    trace.close()
    return result


def compare_all(traces, log, allow_tail=0):
    """Each trace with its process. A pid that went through exec has several images, in order."""
    result = Result()
    images = defaultdict(list)
    for process in parse_log(log):
        if process.calls:
            images[process.pid].append(process)
    starts = []
    for path in traces:
        trace = Trace(path)
        starts.append((int(trace.meta("start_real_ns")), trace.pid(), path))
        trace.close()
    for _, pid, path in sorted(starts):
        if not images.get(pid):
            result.add(f"{path}: process {pid} made no call of the table")
            continue
        one = compare(path, images[pid].pop(0), allow_tail)
        for text in one.differences:
            result.add(f"{path}: {text}")
        result.counts += one.counts
    for left in images.values():
        for process in left:
            result.add(f"process {process.pid} ({process.program}): {len(process.calls)} calls, no trace")
    return result
