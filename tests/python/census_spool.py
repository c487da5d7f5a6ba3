"""Reads the census of a spool that no collector took in (LAYOUTSPY_COLLECTOR=none), and wishes one.

A small reader of its own (include/layoutspy/format.h), so that what the library writes is tested
without what reads it in the end."""

import mmap
import struct
from dataclasses import dataclass, field

CENSUS, STORAGE, TENSOR = 12, 13, 14
CALL = 1
BEGINS, COMPLETE, CUT, FAILED = 1, 2, 3, 4
OOM, ASKED, EXIT = 1, 2, 3
FLAGS = {1: "contiguous", 2: "requires_grad", 4: "view", 8: "graph", 16: "local", 32: "raised", 64: "lost",
         128: "global"}
SLOTS_AT, SLOTS, CHUNK_HEAD = 4096, 4096, 64
CENSUS_WANTED_AT, REQUESTS_AT = 156, 168  # in the spool's header


@dataclass
class Tensor:
    object: int
    offset: int
    bytes: int
    flags: set
    shape: tuple
    stride: tuple
    dtype: str
    cls: str
    path_count: int
    paths: list


@dataclass
class Storage:
    id: int
    device: int
    address: int
    bytes: int
    held_by_graph: int
    tensors: list = field(default_factory=list)


@dataclass
class Census:
    number: int
    reason: int
    oom_ticks: int
    state: int = 0
    text: str = ""
    objects: int = 0
    tensor_count: int = 0
    nodes: int = 0
    begin: int = 0
    end: int = 0
    storages: list = field(default_factory=list)

    def tensors(self):
        return [t for s in self.storages for t in s.tensors]

    def paths(self):
        return [p for t in self.tensors() for p in t.paths]

    def by_path(self, path):
        found = [t for t in self.tensors() if path in t.paths]
        assert len(found) == 1, f"{len(found)} tensors at {path}; there are {sorted(self.paths())[:80]}"
        return found[0]

    def storage_of(self, path):
        return next(s for s in self.storages if any(path in t.paths for t in s.tensors))


def chunks(data):
    for slot in range(SLOTS):
        offset, size, _ = struct.unpack_from("<QQI", data, SLOTS_AT + slot * 32)
        if offset:
            _, _, _, _, thread, sequence, committed = struct.unpack_from("<IIIIIIQ", data, offset)
            yield (thread, sequence), data[offset + CHUNK_HEAD:offset + committed]


def records(path):
    data = path.read_bytes()
    assert data.startswith(b"layoutspy spool\0")
    for _, chunk in sorted(chunks(data), key=lambda pair: pair[0]):
        at = 0
        while at < len(chunk):
            size, kind = struct.unpack_from("<HB", chunk, at)
            assert size >= 8 and size % 8 == 0
            yield kind, chunk[at:at + size]
            at += size


def text_at(record, at):
    return record[at:record.index(b"\0", at)].decode(), record.index(b"\0", at) + 1


def read_tensor(record):
    _, storage, obj, offset, size, flags, dims, paths, told = struct.unpack_from("<IIQQQIIII", record, 8)
    at = 8 + 4 * 2 + 8 * 3 + 4 * 4
    numbers = struct.unpack_from(f"<{2 * dims}q", record, at)
    at += 16 * dims
    dtype, at = text_at(record, at)
    cls, at = text_at(record, at)
    texts = []
    for _ in range(told):
        text, at = text_at(record, at)
        texts.append(text)
    return storage, Tensor(obj, offset, size, {name for bit, name in FLAGS.items() if flags & bit}, numbers[:dims],
                           numbers[dims:], dtype, cls, paths, texts)


def read(path):
    """The censuses of a spool, in order."""
    found = {}
    for kind, record in records(path):
        if kind == CENSUS:
            ticks, oom, number, state, reason, _, objects, tensors, nodes = struct.unpack_from("<QQIIIIQQQ", record, 8)
            if number not in found:
                found[number] = Census(number, reason, oom)
            census = found[number]
            assert census.reason == reason and census.state in (0, BEGINS)
            census.state, census.text = state, text_at(record, 64)[0]
            if state == BEGINS:
                census.begin = ticks
            else:
                census.end = ticks
                census.objects, census.tensor_count, census.nodes = objects, tensors, nodes
        elif kind == STORAGE:
            number, ident, address, size, held = struct.unpack_from("<IIQQQ", record, 8)
            assert found[number].state == BEGINS
            found[number].storages.append(Storage(ident, record[6], address, size, held))
        elif kind == TENSOR:
            number = struct.unpack_from("<I", record, 8)[0]
            storage, tensor = read_tensor(record)
            last = found[number].storages[-1]
            assert last.id == storage
            last.tensors.append(tensor)
    assert sorted(found) == list(range(1, len(found) + 1))
    return [found[number] for number in sorted(found)]


def wish_in(header):
    """What `layoutspy census PID` does to the spool's header."""
    for at in CENSUS_WANTED_AT, REQUESTS_AT:
        value = struct.unpack_from("<I", header, at)[0]
        struct.pack_into("<I", header, at, value + 1)


def wish(path):
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), 4096) as header:
        wish_in(header)
