"""The simulated device's ground-truth log: its processes, and the calls that each made. See truth.py."""

from collections import defaultdict

from table import RECORDED, TABLE

U64 = 1 << 64
# The libraries' own words in the log for what the table has one word for.
WORDS = {"comm": "handle", "plan": "handle"}


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
