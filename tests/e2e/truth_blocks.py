"""The judge's part for frameworks' blocks and for mapped memory. See truth.py.

What the log has of them: a line per report of PyTorch's allocator (the witness), a line per driver call.
"""

from collections import Counter, defaultdict, deque


def maps(call, cls):
    return cls == "vmm_map" and bool(call.number("ptr"))


def end_mapped(live, call):
    """Ends the lifetimes that cuMemUnmap ends: all that lie in its range. Yields them."""
    start = call.number("ptr")
    for key in [key for key in live if key[0] == "vmm" and start <= key[1] < start + call.number("size")]:
        if live[key]:
            yield live[key].popleft()


class Block:
    __slots__ = ("address", "size", "device", "ended")

    def __init__(self, call):
        self.address, self.size, self.device = call.number("ptr"), call.number("size"), call.number("device")
        self.ended = False

    def key(self):
        return (self.device, self.address, self.size, self.ended)


def replay_blocks(calls, classes):
    """The blocks' lifetimes; a device's reports are made under its lock, so the log has their order."""
    blocks, live = [], defaultdict(deque)
    for call in calls:
        if classes(call.name) != "block":
            continue
        if call.number("size") > 0:
            block = Block(call)
            blocks.append(block)
            live[block.address].append(block)
        elif live[call.number("ptr")]:
            live[call.number("ptr")].popleft().ended = True
    return blocks


def check_blocks(trace, calls, classes, result):
    reports = [call for call in calls if classes(call.name) == "block"]
    result.counts["blocks"] = 0
    if not reports:
        if trace.one("SELECT COUNT(*) FROM block"):
            result.add("blocks in the trace, none were reported")
        return
    blocks = replay_blocks(calls, classes)
    want = Counter(block.key() for block in blocks)
    got = Counter((row["device"], row["address"], row["size"], row["end_ns"] is not None)
                  for row in trace.rows("SELECT * FROM block_lifetime"))
    for key in (want - got).elements():
        result.add(f"block missing in block_lifetime: {key}")
    for key in (got - want).elements():
        result.add(f"block in block_lifetime only: {key}")
    want = Counter((call.number("device"), call.number("allocated"), call.number("reserved")) for call in reports)
    got = Counter((row["device"], row["allocated"], row["reserved"])
                  for row in trace.rows("SELECT * FROM reserved_gap"))
    if want - got:
        result.add(f"reserved_gap lacks {list((want - got).elements())[:3]}")
    for key in ("blocks.allocated_breaks", "blocks.reserved_breaks", "blocks.late_allocated_bytes"):
        if trace.meta(key) != "0":
            result.add(f"{key} is {trace.meta(key)}")
    wrong = trace.one("SELECT COUNT(*) FROM block WHERE end_ns < start_ns OR free_ns < end_ns OR"
                      " (free_ns IS NOT NULL AND end_ns IS NULL) OR segment IS NULL")
    if wrong:
        result.add(f"{wrong} blocks end before they start, or have no segment")
    result.counts["blocks"] = len(blocks)
