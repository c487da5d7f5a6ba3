"""Traces made by hand: rows put into the schema, for tests that need no recording.

Times are ns since the recording's start. A Trace is written by close(), or at the end of a
`with` block.
"""

import sqlite3
from pathlib import Path

from table import schema

KINDS = {"device": 1, "async": 2, "managed": 3, "pinned": 4, "registered": 5, "vmm": 6, "array": 7}
SIDES = {"unknown": 0, "pageable": 1, "pinned": 2, "device": 3, "managed": 4, "array": 5}
DIRECTIONS = {"unknown": 0, "H2D": 1, "D2H": 2, "D2D": 3, "H2H": 4, "P2P": 5}

# name: (library, class, field names)
APIS = {
    "cudaMalloc": ("cudart", "device_alloc", ["ptr", "size"]),
    "cudaMallocAsync": ("cudart", "async_alloc", ["ptr", "size", "stream"]),
    "cudaMallocManaged": ("cudart", "managed_alloc", ["ptr", "size"]),
    "cudaHostAlloc": ("cudart", "pinned_alloc", ["ptr", "size"]),
    "cudaHostRegister": ("cudart", "register", ["ptr", "size"]),
    "cudaFree": ("cudart", "free", ["ptr"]),
    "cudaMemcpy": ("cudart", "copy", ["dst", "src", "bytes", "kind"]),
    "cudaMemcpyAsync": ("cudart", "copy", ["dst", "src", "bytes", "kind", "stream"]),
    "cudaMemGetInfo": ("cudart", "mem_info", ["free", "total"]),
    "cudaLaunchKernel": ("cudart", "launch", ["kernel"]),
}


class Trace:
    def __init__(self, path, ended="exit", run_ns=1_000_000_000, app="./app"):
        self.path = Path(path)
        self.db = sqlite3.connect(self.path)
        self.db.executescript(schema())
        self.run_ns = run_ns
        self.apis, self.stacks, self.modules, self.calls = {}, {}, {}, 0
        self.address = self.next = 0x7F0000000000
        meta = {"schema": 1, "layoutspy_version": "0", "start_real_ns": 1_700_000_000_000_000_000,
                "end_ns": run_ns, "ended": ended, "clock": "monotonic", "pid": 1234,
                "exe": app, "cmdline": app, "cwd": "/", "host": "box"}
        for key, value in meta.items():
            self.db.execute("INSERT INTO meta VALUES(?, ?)", (key, str(value)))
        self.coverage("cudart", "on", "calls through libcudart.so")
        self.db.execute("INSERT INTO thread VALUES(1, 1234, 'app')")

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.close()

    def close(self):
        self.db.commit()
        self.db.close()

    def coverage(self, layer, state, detail=""):
        self.db.execute("INSERT INTO coverage VALUES(?, ?, ?)", (layer, state, detail))

    def lost(self, reason, count):
        self.db.execute("INSERT INTO lost VALUES(?, ?, 0, 0)", (reason, count))

    def api(self, name):
        if name not in self.apis:
            number = self.apis[name] = len(self.apis) + 1
            library, cls, fields = APIS[name]
            text = "[%s]" % ", ".join('{"name": "%s", "type": "uint"}' % f for f in fields)
            self.db.execute("INSERT INTO api VALUES(?, ?, ?, ?, ?)",
                            (number, name, library, cls, text))
        return self.apis[name]

    def module(self, path):
        if path not in self.modules:
            number = self.modules[path] = len(self.modules) + 1
            self.db.execute("INSERT INTO module(id, path) VALUES(?, ?)", (number, path))
        return self.modules[path]

    def stack(self, site, modules=("/home/me/app",)):
        """A stack, innermost module first, by the text of its site; None: no stack."""
        if site is None:
            return None
        key = (site, tuple(modules))
        if key not in self.stacks:
            parent = None
            for path in reversed(modules):
                frame = self.db.execute(
                    "INSERT INTO frame(module, offset, function) VALUES(?, 16, 'f')",
                    (self.module(path),)).lastrowid
                parent = self.db.execute("INSERT INTO stack(parent, frame) VALUES(?, ?)",
                                         (parent, frame)).lastrowid
            number = self.stacks[key] = len(self.stacks) + 1
            self.db.execute("INSERT INTO stack_site(id, stack, site) VALUES(?, ?, ?)", (number, parent, site))
        return self.stacks[key]

    def call(self, name, start, duration=1000, stack=None, fields=()):
        self.calls += 1
        columns = "".join(", f%d" % i for i in range(len(fields)))
        marks = ", ?" * len(fields)
        self.db.execute("INSERT INTO call(id, start_ns, duration_ns, thread, api, status, flags,"
                        f" device, stack{columns}) VALUES(?, ?, ?, 1, ?, 0, 0, 0, ?{marks})",
                        (self.calls, start, duration, self.api(name), stack, *fields))
        return self.calls

    def place(self, size, granule):
        """self.address: where nothing lies yet."""
        self.address = (self.next + granule - 1) // granule * granule
        self.next = self.address + size

    def alloc(self, kind, size, start, end=None, site="app.c:1 main", api="cudaMalloc",
              modules=("/home/me/app",), reason=0):
        stack = self.stack(site, modules)
        self.place(size, 512)
        number = self.call(api, start, stack=stack, fields=(self.address, size))
        ended = end is not None
        self.db.execute("INSERT INTO allocation(start_ns, end_ns, kind, device, address, size, api,"
                        " free_api, stack, start_call, end_reason) VALUES(?,?,?,0,?,?,?,?,?,?,?)",
                        (start, end, KINDS[kind], self.address, size, self.api(api),
                         self.api("cudaFree") if ended else None, stack, number,
                         reason if ended else None))
        if ended:
            self.call("cudaFree", end, fields=(self.address,))

    def copy(self, direction, bytes, start, blocked=10_000, host="pageable",
             site="app.c:2 main", api="cudaMemcpy", modules=("/home/me/app",)):
        stack = self.stack(site, modules)
        number = self.call(api, start, blocked, stack, (1, 2, bytes, DIRECTIONS[direction]))
        h2d = direction == "H2D"
        self.db.execute("INSERT INTO copy(id, start_ns, direction, src_kind, dst_kind, bytes, api,"
                        " is_async, blocked_ns, stack, thread, status)"
                        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, 0)",
                        (number, start, DIRECTIONS[direction],
                         SIDES[host if h2d else "device"], SIDES["device" if h2d else host],
                         bytes, self.api(api), api.endswith("Async"), blocked, stack))

    def kernel(self, start, duration=1000):
        self.call("cudaLaunchKernel", start, duration, fields=(1,))

    def memory(self, free, total, start=0):
        self.call("cudaMemGetInfo", start, fields=(free, total))

    # --- a framework's allocator ---

    def meta(self, key, value):
        self.db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (key, str(value)))

    def step(self, start, end, loop=1):
        self.db.execute("INSERT INTO step(loop, source, thread, start_ns, end_ns) VALUES(?, 'optimizer', 1, ?, ?)",
                        (loop, start, end))

    def segment(self, size, start, end=None, site="train.py:6 step", device=0):
        """A cudaMalloc of the allocator's; its address."""
        stack = self.stack(site)
        self.place(size, 0x200000)
        number = self.call("cudaMalloc", start, stack=stack, fields=(self.address, size))
        self.db.execute("INSERT INTO allocation(id, start_ns, end_ns, kind, device, address, size, api, stack,"
                        " start_call, end_reason, holder) VALUES(?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, 3)",
                        (number, start, end, device, self.address, size, self.api("cudaMalloc"), stack, number,
                         None if end is None else 0))
        return self.address

    def block(self, address, size, start, end=None, free="at its end", site="train.py:6 step", device=0):
        """free: when it is usable again, None for never."""
        stack = self.stack(site)
        number = self.call("cudaMemGetInfo", start, stack=stack, fields=(0, 0))  # stands in for the report
        self.db.execute("INSERT INTO block(id, start_ns, end_ns, free_ns, device, address, size, stack, thread,"
                        " end_reason, waited) VALUES(?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?)",
                        (number, start, end, end if free == "at its end" else free, device, address, size, stack,
                         None if end is None else 0, None if end is None else int(free != "at its end")))
        return number

    def oom(self, requested, ts, site="train.py:6 step", tried=(), device=0, source=1, **columns):
        """A row of `oom` and, of tried = [(kind, bytes)], those of `oom_call`. Its id."""
        stack = self.stack(site)
        calls = [self.call("cudaMalloc", ts, stack=stack, fields=(0, bytes)) for _, bytes in tried]
        number = calls[-1] if calls else self.call("cudaMalloc", ts, stack=stack, fields=(0, requested))
        row = {"id": number, "ts_ns": ts, "device": device, "requested": requested, "stack": stack, "thread": 1,
               "source": source, "recovered": 0, **columns}
        self.db.execute(f"INSERT INTO oom({', '.join(row)}) VALUES({', '.join('?' * len(row))})", tuple(row.values()))
        self.db.executemany("INSERT INTO oom_call VALUES(?, ?, ?, ?)",
                            [(call, number, kind, bytes) for call, (kind, bytes) in zip(calls, tried)])
        return number
