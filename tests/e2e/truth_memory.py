"""The judge's part for allocations: the lifetimes that the log's calls make, and those of the trace. See truth.py."""

from collections import Counter, defaultdict, deque

from table import TABLE
from truth_blocks import end_mapped, maps

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


def array_elements(calls):
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


def check_allocations(trace, process, order, result):
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
