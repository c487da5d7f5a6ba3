"""PyTorch's own view of its memory against a trace's, at marked moments of one run.

In the recorded program:

    from snapshot import Snapshots
    moments = Snapshots()
    ...
    moments.take()              as often as wanted, on every device that is in use
    moments.save(path)

and afterwards, anywhere:

    differences = compare(trace_path, load(path))       [] where they agree

A moment is marked by MARK calls of cudaMemGetInfo in a row, for which the trace's `memory` table has
rows; the program must not make so many itself without an allocation in between. take() must not run
beside other threads that allocate.
"""

import json
import sqlite3

MARK = 4
STATES = {"active_allocated": "live", "active_pending_free": "pending", "active_awaiting_free": "pending",
          "inactive": "free"}
STATS = ("allocated_bytes.all.current", "reserved_bytes.all.current", "active_bytes.all.current",
         "allocation.all.current", "segment.all.current")


class Snapshots:
    """Taken in the recorded program; needs torch."""

    def __init__(self):
        self.moments = []

    def take(self, label=""):
        import torch

        devices = range(torch.cuda.device_count())
        for _ in range(MARK):
            torch.cuda.mem_get_info()
        self.moments.append({
            "label": label,
            "devices": [{
                "device": device,
                "stats": {key: torch.cuda.memory_stats(device).get(key) for key in STATS},
            } for device in devices],
            "segments": [_plain(segment) for segment in torch.cuda.memory._snapshot()["segments"]],
        })

    def save(self, path):
        with open(path, "w") as file:
            json.dump(self.moments, file)


def _plain(segment):
    """Of a segment what is compared. Blocks of old versions have no address: they follow each other."""
    address, blocks = segment["address"], []
    for block in segment["blocks"]:
        blocks.append([block.get("address", address), block["size"], STATES[block["state"]]])
        address += block["size"]
    return {"device": segment["device"], "address": segment["address"], "size": segment["total_size"],
            "expandable": bool(segment.get("is_expandable")), "blocks": blocks}


def load(path):
    with open(path) as file:
        return json.load(file)


# ---- the trace's view -------------------------------------------------------------------------


def _moments(db, count):
    """ns of each take(): of the last call of its mark. What the allocator itself asked, at an OOM, is
    none."""
    own = {row[0] for row in db.execute("SELECT id FROM oom_call WHERE kind = 4")}
    found, run = [], 0
    for row, ns, asked in db.execute("SELECT id, ts_ns, device_free IS NOT NULL FROM memory ORDER BY id"):
        if row in own:
            continue
        run = run + 1 if asked else 0
        if run == MARK:
            found.append(ns)
            run = 0
    if len(found) != count:
        raise ValueError(f"{count} moments were taken, {len(found)} are marked in the trace")
    return found


def _segments(db, device, ns):
    """Runs of memory that the allocator holds: (address, size, expandable)."""
    out = []
    rows = db.execute(
        "SELECT address, size, kind, reservation FROM segment WHERE device = ? AND start_ns <= ? AND"
        " (end_ns IS NULL OR end_ns > ?) ORDER BY address", (device, ns, ns)).fetchall()
    for address, size, kind, reservation in rows:
        joins = out and kind == "expandable" and out[-1][3] == reservation and out[-1][0] + out[-1][1] == address
        if joins:
            out[-1][1] += size
        else:
            out.append([address, size, kind == "expandable", reservation])
    return out


def _blocks(db, device, ns):
    """(address, size, state, segment) of what is handed out or waited for."""
    return db.execute(
        "SELECT address, size, CASE WHEN end_ns IS NULL OR end_ns > ?2 THEN 'live' WHEN waited IS NULL"
        " THEN 'unknown' ELSE 'pending' END, segment"
        " FROM block_lifetime WHERE device = ?1 AND start_ns <= ?2 AND (free_ns IS NULL OR free_ns > ?2)"
        " ORDER BY address", (device, ns)).fetchall()


def state_at(db, device, ns, pending=()):
    """A device's segments at a moment, as _plain() gives them, from the trace alone. What no block holds
    is free, one block from one neighbour to the next. Where the trace says that it does not know (given
    back during a capture) the block is pending if (address, size) is one of `pending`, else free."""
    blocks, found = [], []
    for address, size, state, segment in _blocks(db, device, ns):
        if state == "unknown":
            if (address, size) not in pending:
                continue
            state = "pending"
        blocks.append((address, size, state, segment))
    for address, size, expandable, reservation in _segments(db, device, ns):
        at, inside = address, []
        for block_address, block_size, state, segment in blocks:
            if not address <= block_address < address + size:
                continue
            if block_address > at:
                inside.append([at, block_address - at, "free"])
            inside.append([block_address, block_size, state if segment == reservation else f"{state} in {segment}"])
            at = block_address + block_size
        if at < address + size:
            inside.append([at, address + size - at, "free"])
        found.append({"device": device, "address": address, "size": size, "expandable": expandable,
                      "blocks": inside})
    return found


def _total_differences(db, device, ns, stats, found):
    """The totals: those that rows say, and those that were reported last."""
    states = [block for segment in found for block in segment["blocks"]]
    live = sum(size for _, size, state in states if state == "live")
    held = sum(segment["size"] for segment in found)
    active = sum(size for _, size, state in states if state in ("live", "pending"))
    counts = {"allocated_bytes.all.current": live, "reserved_bytes.all.current": held,
              "active_bytes.all.current": active,
              "allocation.all.current": sum(state == "live" for _, _, state in states)}
    for key, value in counts.items():
        if (stats.get(key) or 0) != value:
            yield f"{key} is {stats.get(key)}, the trace's rows make {value}"
    row = db.execute("SELECT allocated FROM reserved_gap WHERE device = ? AND ts_ns <= ?"
                     " ORDER BY ts_ns DESC, call_id DESC LIMIT 1", (device, ns)).fetchone()
    if (row[0] if row else 0) != stats["allocated_bytes.all.current"]:
        yield f"allocated is {stats['allocated_bytes.all.current']}, reported last was {row and row[0]}"


def _segment_differences(truth, found):
    theirs = {segment["address"]: segment for segment in truth}
    ours = {segment["address"]: segment for segment in found}
    for address in sorted(set(theirs) | set(ours)):
        their, our = theirs.get(address), ours.get(address)
        if not their or not our:
            where = "not in the trace" if their else "in the trace only"
            yield f"segment {address:#x} of {(their or our)['size']} bytes is {where}"
        elif their != our:
            if (their["size"], their["expandable"]) != (our["size"], our["expandable"]):
                yield f"segment {address:#x}: {our['size']} bytes, expandable {our['expandable']} in the trace," \
                      f" {their['size']}, {their['expandable']} in torch"
            mine, other = {tuple(b) for b in our["blocks"]}, {tuple(b) for b in their["blocks"]}
            for block in sorted(other ^ mine):
                yield f"segment {address:#x}: block {block[0]:#x}, {block[1]} bytes, {block[2]}," \
                      f" is in {'torch' if block in other else 'the trace'} only"


def compare(trace, moments):
    """Differences as text, [] where there is none."""
    db = sqlite3.connect(f"file:{trace}?mode=ro", uri=True)
    out = []
    for number, (moment, ns) in enumerate(zip(moments, _moments(db, len(moments)))):
        for known in moment["devices"]:
            device = known["device"]
            truth = [segment for segment in moment["segments"] if segment["device"] == device]
            pending = {(block[0], block[1]) for segment in truth for block in segment["blocks"] if block[2] == "pending"}
            found = state_at(db, device, ns, pending)
            where = f"moment {number} {moment['label']} device {device}: "
            out += [where + text for text in _segment_differences(truth, found)]
            out += [where + text for text in _total_differences(db, device, ns, known["stats"], found)]
    db.close()
    return out
