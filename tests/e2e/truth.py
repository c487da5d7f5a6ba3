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
from collections import Counter, defaultdict, deque

from table import RECORDED, TABLE
from truth_blocks import check_blocks, end_mapped, maps

U64 = 1 << 64
# The libraries' own words in the log for what the table has one word for.
WORDS = {"comm": "handle", "plan": "handle"}
SHOWN = 40  # differences kept as text


class Call:
    __slots__ = ("pid", "tid", "sequence", "name", "status", "by", "keys")

    def __init__(self, line):
        pid, tid, sequence, self.name, status, self.by, *keys = line.split("\t")
        self.pid, self.tid, self.sequence, self.status = int(pid), int(tid), int(sequence), int(status)
        self.keys = dict(key.split("=", 1) for key in keys if key)
        for word in WORDS.keys() & self.keys.keys():
            self.keys.setdefault(WORDS[word], self.keys[word])
        if self.name.startswith("cuMemcpyPeer"):  # by its name: never from or to the host
            self.keys["kind"] = "3"

    def number(self, key, default=None):
        return int(self.keys[key]) if key in self.keys else default

    def __repr__(self):
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.keys.items())}) = {self.status}"


class Handles:
    """What the handles of libraries were told last: setters that change nothing are not recorded."""

    def __init__(self):
        self.told = {}

    def repeats(self, name, status, values):
        if TABLE[name].cls != "library" or status != 0:
            return False
        handle, *rest = (int(values[field]) % U64 for field, _ in TABLE[name].fields)
        if not rest:  # made, or gone
            self.told = {key: value for key, value in self.told.items() if key[1] != handle}
            return False
        before = self.told.get((name, handle))
        self.told[name, handle] = rest
        return before == rest


class Process:
    """One process image: from its #start to the next one of the same pid."""

    def __init__(self, pid, program=""):
        self.pid, self.program = pid, program
        self.calls = []  # by the program, of the table, in the log's order
        self.own = []  # by layoutspy, outside the table: questions it asked
        self.handles = Handles()
        self.live = None  # from the #live notes, where the device wrote them
        self.ended = False  # it wrote its #exit note

    def by_thread(self):
        threads = defaultdict(list)
        for call in self.calls:
            threads[call.tid].append(call)
        return threads


def _note(text, processes, current):
    word = text[1:].split()
    if word[0] == "start":
        implied = current.get(int(word[1]))
        if implied and not implied.program:  # another thread's line overtook the note
            implied.program = " ".join(word[2:])
            return
        process = Process(int(word[1]), " ".join(word[2:]))
        processes.append(process)
        current[process.pid] = process
    elif word[0] in ("exit", "live"):
        process = current[int(word[1])]
        process.live = process.live or []
        if word[0] == "exit":
            process.ended = True
        else:
            process.live.append((word[2], int(word[3]), int(word[4])))


def parse_log(path):
    """The processes of a log, in the order of their start. A torn last line is left out."""
    processes, current = [], {}
    with open(path, errors="replace") as log:
        for line in log:
            if not line.endswith("\n"):
                break
            line = line[:-1]
            if line.startswith("#"):
                _note(line, processes, current)
                continue
            call = Call(line)
            if call.pid not in current:
                current[call.pid] = Process(call.pid)
                processes.append(current[call.pid])
            process = current[call.pid]
            if call.by == "standin":
                continue
            if process.ended:  # a thread or destructor that goes on after the device took stock
                process.live = None
            if call.name in RECORDED:
                if not process.handles.repeats(call.name, call.status, call.keys):
                    process.calls.append(call)
            elif call.by == "layoutspy" and call.name not in TABLE:
                process.own.append(call)
    return processes


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


# ---- allocations ----------------------------------------------------------------------------

ALLOCATES = {"device_alloc", "async_alloc", "managed_alloc", "pinned_alloc", "array_alloc", "register", "ipc_alloc"}
FREES = {"free", "unregister"}
KIND = {
    "device_alloc": "device",
    "async_alloc": "async",
    "managed_alloc": "managed",
    "pinned_alloc": "pinned",
    "array_alloc": "array",
    "register": "registered",
    "ipc_alloc": "ipc",
    "graph_node": "graph",
    "vmm_map": "vmm",
}


def _format_bytes(call):
    """Bytes of a texel: `format` holds the bits of its four channels, a byte each."""
    return sum(call.number("format", 0).to_bytes(8, "little")) // 8


def _array_size(call):
    if "size" in call.keys:
        return call.number("size")
    texels = call.number("width", 0) * max(call.number("height", 0), 1) * max(call.number("depth", 0), 1)
    return texels * _format_bytes(call)


def _frees(call, cls):
    """A graph's node without a size frees."""
    return cls in FREES or (cls == "graph_node" and not call.number("size"))


def _allocates(call, cls):
    return cls in ALLOCATES or maps(call, cls) or (cls == "graph_node" and bool(call.number("size")))


def _array_elements(calls):
    """Array handle -> bytes of its elements; a level of a mipmapped array has those of the whole."""
    arrays = {}
    for call in calls:
        if call.status == 0 and TABLE[call.name].cls == "array_alloc":
            arrays[call.number("ptr")] = _format_bytes(call)
        elif call.status == 0 and TABLE[call.name].cls == "array_level":
            arrays[call.number("array")] = arrays.get(call.number("ptr"))
    return arrays


class Life:
    __slots__ = ("kind", "address", "size", "device", "api", "free_api", "how")

    def key(self):
        return (self.kind, self.address, self.size, self.device, self.api, self.free_api, self.how)


def replay(calls):
    """The lifetimes that a process's calls make, in order; `how` None: live, else end_reason.

    Lines are written as calls return, so another thread's allocation at the same address may come
    before the free that made room for it: a free ends the oldest lifetime of its address and kind.
    """
    lives, live = [], defaultdict(deque)
    for call in calls:
        cls = TABLE[call.name].cls
        if call.status != 0:
            continue
        if _allocates(call, cls) and call.number("ptr"):
            life = Life()
            life.kind = call.keys.get("memory", KIND[cls])
            life.address, life.api, life.free_api, life.how = call.number("ptr"), call.name, None, None
            life.size = _array_size(call) if cls == "array_alloc" else call.number("size")
            life.device = call.number("device", 0)
            lives.append(life)
            live["vmm" if cls == "vmm_map" else life.kind == "registered", life.address].append(life)
        elif _frees(call, cls) and call.number("ptr"):
            olds = live[cls == "unregister", call.number("ptr")]
            freed = call.keys.get("memory")
            life = next((old for old in olds if freed in (None, old.kind)), None)
            if life:
                olds.remove(life)
                life.free_api, life.how = call.name, 0
        elif cls == "vmm_unmap":
            for life in end_mapped(live, call):
                life.free_api, life.how = call.name, 0
        elif call.name in ("cudaDeviceReset", "cuDevicePrimaryCtxReset_v2"):
            for life in lives:
                if life.how is None and life.device == call.number("device", 0):
                    life.free_api, life.how = call.name, 1
            for olds in live.values():
                for life in [life for life in olds if life.how is not None]:
                    olds.remove(life)
    # A kill can cut off the line of a free whose memory another thread has got already.
    for olds in live.values():
        for life in list(olds)[:-1]:
            life.how = 2
    return lives


def _check_allocations(trace, process, order, result):
    lives = replay(order)
    rows = trace.rows("SELECT a.*, allocation.end_reason AS how FROM all_allocation a JOIN allocation USING (id)")

    def recorded_key(row):
        how = row["how"] if row["end_ns"] is not None else None
        return (row["kind"], row["address"], row["size"], row["device"], row["api"], row["free_api"], how)

    want, got = Counter(life.key() for life in lives), Counter(map(recorded_key, rows))
    for key in (want - got).elements():
        result.add(f"allocation missing in all_allocation: {key}")
    for key in (got - want).elements():
        result.add(f"allocation in all_allocation only: {key}")
    for row in rows:
        if row["end_ns"] is not None and row["end_ns"] < row["start_ns"]:
            result.add(f"allocation {row['id']} ends before it starts")
    left = Counter((life.kind, life.address, life.size) for life in lives if life.how is None)
    live = Counter((r["kind"], r["address"], r["size"]) for r in trace.rows("SELECT * FROM live_allocation"))
    if live != left:
        result.add(f"live_allocation: {list((live - left).elements())[:5]} too many, "
                   f"{list((left - live).elements())[:5]} too few")
    if process.live is not None and Counter(process.live) != left:
        result.add(f"the device says other memory is live at exit: {process.live[:5]}, replayed {list(left)[:5]}")
    result.counts["allocations"] = len(lives)
    result.counts["live"] = sum(left.values())


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
    _check_copies(trace, pairs, _array_elements(process.calls), result)
    if not result.total:  # lifetimes follow from the calls: say the cause, not the consequence
        order = [call for call in process.calls if id(call) in in_trace]
        _check_allocations(trace, process, order, result)
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
