"""The simulated CUPTI, met by a client that does one thing after the other (cupti_client.c), and the
simulated NVML."""

import os
import re
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness import BUILD, CUDART, ON_STANDIN

HERE = Path(__file__).parent
CLIENT = BUILD / "tests" / "standin" / "libs" / "cupti-client"
VERSIONS = ["11.8", "12.4", "13.0", "13.3"]
NEWEST = "13.0" if CUDART == "libcudart.so.13" else "12.4"
DRIVER, RUNTIME, RESOURCE = 1, 2, 3
MEMCPY, MEMSET, KERNEL, DRIVER_API, API, DEVICE, CONTEXT, CONCURRENT = 1, 2, 3, 4, 5, 8, 9, 10
OVERHEAD, MEMCPY2, CUDA_EVENT, SYNC, EXTERNAL, MEMORY2, POOL, GRAPH = 17, 22, 36, 38, 39, 49, 50, 51
TAKEN, INVALID, OPERATION, NO_MORE, NOT_COMPATIBLE, EMPTY, BAD_KIND = 39, 1, 7, 12, 14, 18, 21


def read_layouts():
    """{kind: (sizes, {field: (width, offsets)})}, by version, from the table."""
    layouts, current = {}, None
    for line in (HERE / "cupti_layouts.def").read_text().splitlines():
        if not line.startswith(("RECORD(", "FIELD(")):
            continue
        words = [w.strip() for w in re.search(r"\((.*)\)", line).group(1).split(",")]
        if line.startswith("RECORD"):
            current = layouts[int(words[1])] = (dict(zip(VERSIONS, map(int, words[3:]))), {})
        else:
            current[1][words[1]] = (int(words[3]), dict(zip(VERSIONS, map(int, words[4:8]))))
    layouts[DRIVER_API], layouts[KERNEL] = layouts[API], layouts[CONCURRENT]
    return layouts


LAYOUTS = read_layouts()


class Record:
    def __init__(self, data, version, name):
        self.kind = struct.unpack_from("<I", data)[0]
        self.symbol = name
        for field, (width, offsets) in LAYOUTS[self.kind][1].items():
            if offsets[version] >= 0:
                part = data[offsets[version]:offsets[version] + width]
                setattr(self, field, int.from_bytes(part, "little"))

    def __repr__(self):
        return str(vars(self))


class Outcome:
    def __init__(self, done, log, version):
        self.returncode, self.out, self.version = done.returncode, done.stdout, version
        self.err = done.stderr
        self.truth = log.read_text().splitlines() if log.exists() else []
        self.lines = [line.split() for line in done.stdout.splitlines()]

    def status(self, word):
        return [int(line[1]) for line in self.lines if line[0] == word]

    def all(self, word):
        return [line[1:] for line in self.lines if line[0] == word]

    def records(self, kind=None):
        found = [Record(bytes.fromhex(hexed), self.version, name) for hexed, name in self.all("record")]
        return [r for r in found if kind in (None, r.kind)]

    def notes(self, word):
        return [line.split(None, 3)[3] for line in self.truth
                if line.startswith("#cupti ") and line.split()[2] == word]

    def misuse(self):
        return [line.split(None, 2)[2] for line in self.truth if line.startswith("#misuse")]


@pytest.fixture
def client(tmp_path):
    def run(words, version=NEWEST, devices=1, timeout=60, delay=2, wrong=0, **settings):
        log = tmp_path / "truth"
        log.unlink(missing_ok=True)
        environment = {**os.environ, "STANDIN_CUPTI": version, "STANDIN_DELAY_US": str(delay),
                       **{f"STANDIN_CUPTI_{key.upper()}": value for key, value in settings.items()}}
        done = subprocess.run([ON_STANDIN, "--devices", str(devices), "--log", log, "--", CLIENT, *words.split()],
                              env=environment, capture_output=True, text=True, timeout=timeout)
        assert done.returncode == wrong, (done.stdout, done.stderr)
        return Outcome(done, log, version)
    return run


WORK = "malloc h2d stream launch set d2h-async launch sync free"
ALL_ON = "register on:1 on:2 on:10 on:5 on:4 on:38 on:49 on:22"


def calls(outcome, name):
    return [line.split("\t") for line in outcome.truth if f"\t{name}\t" in line]


# ---- subscribers ----


def test_one_subscriber_at_a_time(client):
    out = client("subscribe subscribe subscribe-v2 unsubscribe unsubscribe subscribe-v2 subscribe-v2 finalize subscribe")
    assert out.status("subscribe") == [0, TAKEN, 0]
    assert out.status("subscribe-v2") == [TAKEN, 0, TAKEN]
    assert out.status("unsubscribe") == [0, INVALID]
    assert [" ".join(o) for o in out.all("other")] == ["CUPTI for", "", "CUPTI for client"]
    assert len(out.notes("subscribe")) == 6
    assert out.notes("unsubscribe") == ["module=cupti-client"]
    assert out.notes("finalize") == ["by=cupti-client"]


def test_another_tool_was_first(client):
    out = client("subscribe subscribe-v2 on:5 register", taken="Nsight Systems")
    assert [out.status(w) for w in ("subscribe", "subscribe-v2", "on:5", "register")] == [[TAKEN]] * 4
    assert out.all("other") == [["CUPTI", "for", "Nsight", "Systems"]]


def test_several_subscribers(client):
    if NEWEST != "13.0":
        pytest.skip("no library of CUDA 12 can")
    out = client("share-v2 register-v2 on-v2:5 share-v2 register-v2 on-v2:10 subscribe subscribe-v2 on:5 stream "
                 "malloc launch sync flush:0", version="13.3", multi="1")
    assert out.status("share-v2") == [0, 0]
    assert out.status("subscribe") == out.status("subscribe-v2") == out.status("on:5") == [TAKEN]
    buffers = out.all("buffer")
    assert len(buffers) == 2
    assert len(out.records(API)) >= 4 and len(out.records(CONCURRENT)) == 1


def test_several_subscribers_need_the_driver_and_the_version(client):
    assert client("share-v2 share-v2", version="13.3").status("share-v2") == [0, TAKEN]
    assert client("share-v2 share-v2", multi="1").status("share-v2") == [0, TAKEN]
    assert client("subscribe-v2 on-v2:5").status("on-v2:5") == [-1]  # exported by 13.3 only


# ---- callbacks ----


def test_callbacks(client):
    out = client("subscribe callback:2:20 callback:1:243 domain:3 malloc fail h2d free")
    seen = [line for line in out.all("callback") if line[0] != "3"]
    names = [(line[3], line[2], line[4]) for line in seen]
    once = [("cudaMalloc", "0", "-1"), ("cuMemAlloc_v2", "0", "-1"), ("cuMemAlloc_v2", "1", "0"), ("cudaMalloc", "1", "0")]
    assert names[:4] == once
    assert names[-1] == ("cudaMalloc", "1", "1")
    assert {line[3] for line in seen} == {"cudaMalloc", "cuMemAlloc_v2"}
    # The context comes between entry and exit; what the entry leaves, the exit finds.
    first, last = seen[0], seen[3]
    assert first[8] == "0" and last[8] == "1" and last[7] == "1"
    assert first[9] == "0" and last[9] == "5"
    assert first[6] == last[6] == seen[1][6] == "1"  # the driver's call has the runtime's number
    assert out.all("callback")[0][0] == "2" and ["3", "1"] in out.all("callback")
    assert not out.misuse()


def test_launches_name_their_kernel(client):
    out = client("subscribe callback:2:211 malloc stream launch sync")
    assert [line[5] for line in out.all("callback")] == ["_Z6kernelv"] * 2


def test_context_goes(client):
    out = client("subscribe domain:3 malloc reset malloc")
    assert [line[1] for line in out.all("callback") if line[1] in "12"] == ["1", "2", "1"]


@pytest.mark.parametrize("meddle, where", [(1, "cudaFree in=callback"), (2, "cuptiSubscribe in=callback")])
def test_what_a_callback_must_not_do(client, meddle, where):
    out = client(f"subscribe callback:2:20 meddle:{meddle} malloc")
    assert out.misuse() == [where] * 2
    assert out.status("inside") == ([OPERATION] * 2 if meddle == 2 else [])


def test_what_a_callback_may_do(client):
    out = client("subscribe callback:2:20 meddle:3 malloc")
    assert not out.misuse() and out.status("inside") == [0, 0]


def test_names(client):
    out = client("name:2:20 name:2:211 name:1:243 name:2:225 name:2:0 name:2:9999 name:3:1 name:0:1")
    assert [a[0] for a in out.all("answer")] == ["cudaMalloc_v3020", "cudaLaunchKernel_v7000", "cuMemAlloc_v2",
                                                 "cudaMemcpyAsync_ptsz_v7000", "INVALID", "-", "-", "-"]
    assert [int(line[1]) for line in out.lines if line[0].startswith("name")] == [0] * 5 + [INVALID] * 3


def test_names_are_the_real_ones():
    """Without a driver NVIDIA's library answers this question, up to 13.0."""
    real = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "lib64" / "libcupti.so.13"
    if not real.exists():
        pytest.skip("no CUPTI 13 in the toolkit")
    code = ("import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); n = ctypes.c_char_p()\n"
            "for line in sys.stdin:\n"
            "    d, i, w = line.split(); s = l.cuptiGetCallbackName(int(d), int(i), ctypes.byref(n))\n"
            "    if s == 999: print('answers nothing'); break\n"
            "    if s == 0 and n.value.decode() != w: print(line, n.value)\n")
    rows = re.findall(r"^CBID(?:13)?\((\w+), (\d+), (\w+)\)", (HERE / "cupti_calls.def").read_text(), re.M)
    assert len(rows) > 1000
    asked = "".join(f"{RUNTIME if d == 'RUNTIME' else DRIVER} {n} {w}\n" for d, n, w in rows)
    done = subprocess.run([sys.executable, "-c", code, real], input=asked, capture_output=True, text=True, timeout=60)
    if "answers nothing" in done.stdout:
        pytest.skip("this version answers nothing without a driver")
    wrong = [line for line in done.stdout.splitlines() if line]
    assert done.returncode == 0 and not wrong, wrong


# ---- activities ----


@pytest.mark.parametrize("version", VERSIONS)
def test_records_of_each_version(client, version):
    out = client(f"{ALL_ON} {WORK} flush:0 dropped version", version=version)
    numbers = {"11.8": 18, "12.4": 22, "13.0": 130001, "13.3": 130301}
    assert int(out.all("answer")[-1][1]) == numbers[version]
    kernels, copies, sets = out.records(CONCURRENT), out.records(MEMCPY), out.records(MEMSET)
    assert [len(kernels), len(copies), len(sets)] == [2, 2, 1]
    assert {k.symbol for k in kernels} == {"_Z6kernelv"}
    assert (kernels[0].gridX, kernels[0].gridY, kernels[0].blockX, kernels[0].dynamicSharedMemory) == (4, 2, 64, 128)
    seen = [(c.copyKind, c.srcKind, c.dstKind, c.bytes) for c in copies]
    assert seen == [(1, 1, 3, 1 << 16), (2, 3, 1, 4096)]
    assert (sets[0].value, sets[0].bytes, sets[0].memoryKind) == (7, 512, 3)
    assert kernels[0].streamId == sets[0].streamId != copies[0].streamId == 7
    for work in kernels + copies + sets:
        assert 0 < work.start <= work.end < work.start + 10**9
        assert work.graphId == 0 and work.contextId == 1
    assert out.status("end") == [NO_MORE]
    assert [a[2] for a in out.all("answer")][0] == "0"
    size = sum(LAYOUTS[r.kind][0][version] for r in out.records())
    assert int(out.all("buffer")[0][1]) == size


def test_each_call_has_its_record_and_work_its_call(client):
    out = client(f"{ALL_ON} {WORK} flush:0")
    api = {r.correlationId: r for r in out.records(API)}
    calls_made = [line.split("\t") for line in out.truth if re.match(r"\d+\t", line)]
    runtime = [c for c in calls_made if c[3].startswith("cuda")]
    assert len(api) >= len(runtime) - 2
    starts = [r.start for r in api.values()]
    assert starts == sorted(starts) and all(r.start <= r.end for r in api.values())
    for work in out.records(CONCURRENT) + out.records(MEMCPY) + out.records(MEMSET):
        call = api[work.correlationId]
        assert call.start <= work.end and work.start >= call.start
    assert {r.cbid for r in api.values()} >= {20, 211}
    # Where calls of the runtime are told, the driver's inside them are not.
    assert not {r.correlationId for r in out.records(DRIVER_API)} & set(api)
    assert client("register on:4 malloc flush:0").records(DRIVER_API)


def test_memory(client):
    out = client("register on:49 malloc stream async-memory sync free flush:1")
    changes = [(r.memoryOperationType, r.memoryKind, r.isAsync) for r in out.records(MEMORY2)]
    assert sorted(changes) == [(1, 3, 0), (1, 3, 1), (2, 3, 0), (2, 3, 1)]
    bytes_of = {(r.isAsync, r.bytes) for r in out.records(MEMORY2) if r.memoryOperationType == 1}
    assert bytes_of == {(0, 1 << 16), (1, 4096)}
    assert all(r.address and r.timestamp for r in out.records(MEMORY2))


def test_waits_and_events(client):
    out = client("register on:38 on:36 stream event stream-sync sync flush:1")
    assert [r.type for r in out.records(SYNC)] == [3, 4]
    assert len(out.records(CUDA_EVENT)) == 1


def test_copies_between_devices_are_a_kind_of_their_own(client):
    out = client("register on:1 on:22 malloc peer sync flush:1", devices=2)
    assert not out.records(MEMCPY)
    [copy] = out.records(MEMCPY2)
    assert (copy.copyKind, copy.bytes, copy.srcDeviceId, copy.dstDeviceId) == (10, 4096, 0, 1)


def test_graphs(client):
    nodes = client("register on:10 on:2 malloc stream graph graph sync flush:1")
    assert len(nodes.records(CONCURRENT)) == len(nodes.records(MEMSET)) == 2
    assert {r.graphId for r in nodes.records()} != {0} and len({r.graphNodeId for r in nodes.records()}) == 2
    assert len({r.correlationId for r in nodes.records()}) == 2
    whole = client("register on:10 on:2 on:51 malloc stream graph graph launch sync flush:1")
    assert len(whole.records(GRAPH)) == 2 and not whole.records(MEMSET)
    assert [r.graphId for r in whole.records(CONCURRENT)] == [0]


def test_external_correlation(client):
    out = client("register on:39 on:5 push:3:70 push:3:71 push:4:9 malloc pop:3 free pop:3 pop:3 pop:4 sync push:0:1 "
                 "push:6:1 flush:1")
    assert [(r.externalKind, r.externalId) for r in out.records(EXTERNAL)] == [(3, 71), (4, 9), (3, 70), (4, 9)]
    assert [int(a[3]) for a in out.all("answer") if a[3] != "0"] == [71, 70, 9]
    assert out.status("pop:3") == [0, 0, EMPTY] and out.status("push:0:1") == out.status("push:6:1") == [INVALID]
    alone = client("register on:39 on:10 push:3:70 malloc flush:1")
    assert not alone.records(EXTERNAL)


def test_kinds(client):
    out = client("register on:0 on:200 on:3 on:10 on:8 on:9 off:3 on:10 on:56 malloc flush:1")
    assert out.status("on:0") == out.status("on:200") == [BAD_KIND]
    assert out.status("on:10") == [NOT_COMPATIBLE, 0]
    assert out.status("on:56") == [BAD_KIND]
    assert len(out.records(DEVICE)) == 1 and out.records(CONTEXT)[0].contextId == 1
    assert client("on:53", version="12.4").status("on:53") == [BAD_KIND]
    assert client("on:56", version="13.3").status("on:56") == [0]
    assert client("register on:3 malloc stream launch sync flush:1").records(KERNEL)


def test_flush_wants_buffers(client):
    assert client("on:5 malloc flush:0").status("flush:0") == [OPERATION]


# ---- buffers ----


def test_buffers_are_handed_back_when_full(client):
    out = client("size:400 register on:5 malloc free*40 sleep:100 flush:0")
    buffers = out.all("buffer")
    assert len(out.records(API)) >= 41 and len(buffers) >= 5
    assert all(int(valid) <= 400 for _, valid, _ in buffers)
    assert {own for _, _, own in buffers[:-1]} == {"0"} and buffers[-1][2] == "1"  # a thread of CUPTI's; the flush
    assert {a[0] for a in out.all("request")} == {"1"}
    assert any("by=worker" in n for n in out.notes("buffer"))
    assert {n.split()[0] for n in out.notes("buffer")} == {"module=cupti-client"}


@pytest.mark.parametrize("trouble", ["buffers:0", "offset:4", "size:16"])
def test_no_buffer_drops_records(client, trouble):
    out = client(f"{trouble} register on:5 malloc free free flush:0 dropped dropped")
    assert not out.records()
    first, second = [int(a[2]) for a in out.all("answer")]
    assert first >= 3 and second == 0


def test_what_is_not_over(client):
    words = "register on:10 malloc stream launch launch flush:0 flush:1 sync flush:1"
    out = client(words, delay=200000)
    kernels = out.records(CONCURRENT)
    assert [(k.start, k.end) for k in kernels] == [(0, 0)] * 2  # told once, never again
    first_flush = [i for i, line in enumerate(out.lines) if line[0] == "flush:0"][0]
    assert not [line for line in out.lines[:first_flush] if line[0] == "record"]


def test_a_clock_of_the_clients(client):
    out = client(f"clock {ALL_ON} {WORK} time flush:0")
    now = [int(a[3]) for a in out.all("answer")][0]
    works = out.records(CONCURRENT) + out.records(MEMCPY)
    assert works and all(now - 3 * 60 * 10**9 < r.start <= r.end <= now for r in works)
    for r in out.records(CONCURRENT):
        assert 3 * 1000 <= r.end - r.start < 3 * 10**6  # in ticks: a kernel takes 2 us


def test_its_own_clock(client):
    out = client("time sleep:200 time", offset_ns="5000000000", drift_ppm="100000")
    first, second = [int(a[3]) for a in out.all("answer")]
    assert 4.5e9 < first - time.time_ns() + 60e9 and abs(first - time.time_ns() - 5e9) < 5e9
    assert 215e6 < second - first < 2e9


def test_forked_child(client):
    assert client(f"{ALL_ON} malloc fork sync flush:0").status("fork") == [0]


def test_threads(client):
    out = client("size:4000 register on:10 on:2 on:5 subscribe callback:2:211 malloc threads:6 sync flush:1 dropped")
    assert len(out.records(CONCURRENT)) == len(out.records(MEMSET)) == 1200
    assert len({r.correlationId for r in out.records(API)}) == len(out.records(API)) >= 2400
    assert len(out.all("callback")) == 2400
    assert out.all("answer")[-1][2] == "0" and not out.misuse()


# ---- faults ----


@pytest.mark.parametrize("fault, words", [("hang-flush", "register on:5 malloc flush:0"), ("hang-subscribe", "subscribe")])
def test_hangs(tmp_path, fault, words):
    process = subprocess.Popen([ON_STANDIN, "--", CLIENT, *words.split()], stdout=subprocess.PIPE,
                               env={**os.environ, "STANDIN_CUPTI_FAULT": fault})
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_late(client):
    out = client("size:400 register on:5 malloc free*40 sleep:50", fault="late")
    order = [line[0] for line in out.lines]
    assert len(out.records(API)) == 41 and order.index("buffer") > order.index("sleep:50")  # at exit


def test_invalid_times(client):
    out = client("register on:10 malloc stream launch*22 sync flush:0", fault="invalid")
    kernels = out.records(CONCURRENT)
    assert len([k for k in kernels if k.start == k.end == 0]) == 3
    assert len([k for k in kernels if k.end < k.start]) == 2


def test_dropped(client):
    out = client("register on:5 malloc free*24 dropped flush:0", fault="drop")
    assert int(out.all("answer")[0][2]) == 5 and len(out.records(API)) == 20


def test_no_names(client):
    out = client("register on:10 malloc stream launch sync flush:0", fault="no-kernel-names")
    assert [r.symbol for r in out.records(CONCURRENT)] == ["-"]


def test_shuffled(client):
    out = client("size:400 register on:5 malloc free*60 sleep:100 flush:0", fault="shuffle,slow-callback")
    starts = [r.start for r in out.records(API)]
    assert len(starts) == 61 and starts != sorted(starts)


def test_garbage(client):
    out = client("size:400 register on:10 malloc stream launch*20 sync flush:0", fault="garbage,no-kernel-names")
    assert any(int(valid) > int(size) for size, valid, _ in out.all("buffer"))
    assert BAD_KIND in out.status("end")


def test_unload(client):
    out = client("subscribe callback:2:22 register on:5 malloc free*300 unsubscribe", fault="unload")
    assert out.notes("finalize") == ["by=unload"]
    assert len(out.all("callback")) < 600 and out.status("unsubscribe") == [INVALID]


def test_unknown_settings_end_the_program(client):
    assert "STANDIN_CUPTI_FAULT=nonsense" in client("version", fault="nonsense", wrong=2).err
    assert "STANDIN_CUPTI=12.9" in client("version", version="12.9", wrong=2).err


# ---- NVML ----

NVML = r"""
import ctypes, os, subprocess, sys
lib = ctypes.CDLL("libnvidia-ml.so.1")
count, device = ctypes.c_uint(), ctypes.c_void_p()
assert lib.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 1  # not initialised
assert lib.nvmlInit_v2() == 0
assert lib.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0 and count.value == 2
assert lib.nvmlDeviceGetHandleByIndex_v2(2, ctypes.byref(device)) == 2
uuid = ctypes.create_string_buffer(96)
other = ctypes.c_void_p()
assert lib.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(other)) == 0
assert lib.nvmlDeviceGetUUID(other, uuid, 96) == 0 and uuid.value.startswith(b"GPU-73696d75-")
assert lib.nvmlDeviceGetUUID(other, uuid, 8) == 7
assert lib.nvmlDeviceGetHandleByUUID(uuid, ctypes.byref(device)) == 0 and device.value == other.value
assert lib.nvmlDeviceGetHandleByPciBusId_v2(b"0000:01:00.0", ctypes.byref(device)) == 0
version = ctypes.create_string_buffer(80)
assert lib.nvmlSystemGetDriverVersion(version, 80) == 0 and b"." in version.value
class Memory(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint), *((n, ctypes.c_ulonglong) for n in ("total", "reserved", "free", "used"))]
class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]
def look():
    m = Memory(version=40 | 2 << 24)
    assert lib.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(m)) == 0
    assert lib.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(Memory(version=1))) == 25
    n, list_ = ctypes.c_uint(8), (Process * 8)()
    assert lib.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(n), list_) == 0
    assert m.total == 8 << 30 and m.free == m.total - m.used
    return m.used >> 20, {p.pid: p.used >> 20 for p in list_[:n.value]}
assert look() == (100, {77: 100})
cudart = ctypes.CDLL(sys.argv[1])
p, q = ctypes.c_void_p(), ctypes.c_void_p()
assert cudart.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(64 << 20)) == 0
assert look() == (165, {77: 100, os.getpid(): 65}), look()
child = "import ctypes,sys; c = ctypes.CDLL(sys.argv[1]); p = ctypes.c_void_p(); c.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(4 << 20)); print('up', flush=True); input()"
with subprocess.Popen([sys.executable, "-c", child, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as c:
    c.stdout.readline()
    assert look() == (170, {77: 100, os.getpid(): 65, c.pid: 5}), look()
    n = ctypes.c_uint(0)
    assert lib.nvmlDeviceGetComputeRunningProcesses(device, ctypes.byref(n), None) == 7 and n.value == 3
    c.kill()
    c.wait()
assert cudart.cudaFree(p) == 0
assert look() == (101, {77: 100, os.getpid(): 1}), look()
assert lib.nvmlShutdown() == 0 and lib.nvmlShutdown() == 1
lib.nvmlErrorString.restype = ctypes.c_char_p
assert lib.nvmlErrorString(1) == b"Uninitialized"
"""


def test_nvml_sees_the_whole_device(tmp_path):
    environment = {**os.environ, "STANDIN_SESSION": str(tmp_path), "STANDIN_CONTEXT_BYTES": str(1 << 20),
                   "STANDIN_NVML_OTHER": f"77:{100 << 20}", "TMPDIR": str(tmp_path)}
    done = subprocess.run([ON_STANDIN, "--devices", "2", "--memory", "8G", "--", sys.executable, "-c", NVML, CUDART],
                          env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob("standin-*"))  # the last process takes the file away
