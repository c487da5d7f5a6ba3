"""What the simulated device tells of calls, work and memory: to a listener in the process (as the
simulated CUPTI is one) and, with STANDIN_LOG_GPU, to its log. The listener comes by
CUDA_INJECTION64_PATH and writes down all that it hears (../standin/tests/tap_listener.c)."""

from collections import Counter

import pytest

from harness import APPS
from test_standin import FOLDER, PROBE, fields, lines, run

LISTENER = FOLDER / "libtap-listener.so"
KERNEL, COPY, SET, GRAPH, WAIT = range(1, 6)
DRIVER, RUNTIME = 1, 2

pytestmark = pytest.mark.skipif(not LISTENER.exists(), reason="not built")


def to_number(text):
    return int(text) if text.lstrip("-").isdigit() else text


class Heard:
    """All that the listener wrote, in order."""

    def __init__(self, path):
        self.all = []
        for line in path.read_text().splitlines():
            what, *pairs = line.split(" ")
            self.all.append((what, {k: to_number(v) for k, v in (pair.split("=", 1) for pair in pairs)}))

    def of(self, *what):
        return [told for name, told in self.all if name in what]

    def calls(self, name):
        return [told for told in self.of("exit") if told["name"] == name]

    def work(self, kind):
        return [told for told in self.of("work") if told["kind"] == kind]

    def pairs(self):
        """(enter, exit, the enter that it lies in) of each call; they nest within each thread."""
        open_calls, found = {}, []
        for what, told in self.all:
            if what == "enter":
                open_calls.setdefault(told["tid"], []).append(told)
            elif what == "exit":
                stack = open_calls[told["tid"]]
                begin = stack.pop()
                found.append((begin, told, stack[-1] if stack else None))
        assert not any(open_calls.values())
        return found


def listen(tmp_path, *command, **more):
    out = tmp_path / "heard"
    done = run([str(part) for part in command], "--log", str(tmp_path / "log"),
               CUDA_INJECTION64_PATH=str(LISTENER), STANDIN_TAP_OUT=str(out), STANDIN_LOG_GPU="1", **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return Heard(out)


@pytest.fixture(scope="module", params=["static_cudart", "driver_calls", "graphs", "async_pools", "thread_streams"])
def heard(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    listened = listen(folder, APPS / request.param)
    listened.name, listened.log = request.param, folder / "log"
    return listened


def test_calls_come_in_pairs(heard):
    pairs = heard.pairs()
    assert len(pairs) > 30
    for begin, end, outer in pairs:
        for key in ("name", "domain", "correlation", "data"):
            assert begin[key] == end[key]
        assert begin["at"] <= end["at"] and begin["same"] == end["same"] == 1
        assert end["status"] >= 0
        if outer:
            assert (outer["domain"], begin["domain"]) == (RUNTIME, DRIVER)
            assert begin["correlation"] == outer["correlation"]


def test_correlations_count_calls(heard):
    outermost = [begin["correlation"] for begin, _, outer in heard.pairs() if not outer]
    assert len(set(outermost)) == len(outermost)
    assert max(outermost) - min(outermost) == len(outermost) - 1


def test_every_line_of_the_log_has_its_call(heard):
    """The log's numbers are the listener's, and each call that is told has its line."""
    logged = {int(fields(line)["correlation"]): (line[3], int(line[4]))
              for line in lines(heard.log) if "correlation" in fields(line)}
    told = {end["correlation"]: (end["name"], end["status"]) for _, end, outer in heard.pairs() if not outer}
    assert told.items() <= logged.items()
    assert len(logged) - len(told) <= 1  # a failing call before cuInit


def test_times_of_work(heard):
    begun = {begin["correlation"]: begin["at"] for begin, _, outer in heard.pairs() if not outer}
    ended = {}
    done = [told for told in heard.of("work") if told["kind"] != WAIT]
    assert done
    for told in done:
        assert begun[told["correlation"]] <= told["start"] <= told["end"]
        if told["kind"] != GRAPH:
            assert ended.get((told["device"], told["stream"]), 0) <= told["start"], "streams run in order"
            ended[told["device"], told["stream"]] = told["end"]
    for told in heard.work(WAIT):
        assert begun[told["correlation"]] <= told["start"] <= told["end"] <= told["at"]


def test_the_log_tells_the_same_work(heard):
    words = {"kernel": KERNEL, "copy": COPY, "memset": SET, "graph": GRAPH, "wait": WAIT}
    logged, memory = Counter(), Counter()
    apart = set()
    for line in heard.log.read_text().splitlines():
        if not line.startswith("#gpu"):
            continue
        told = {k: to_number(v) for k, v in (pair.split("=", 1) for pair in line.split(" ")[2:])}
        if told["kind"] in words:
            logged[words[told["kind"]], told["correlation"], told["start"], told["end"], told["name"]] += 1
            apart |= {told["start_real"] - told["start"], told["end_real"] - told["end"]}
        elif told["kind"] == "memory":
            memory[told["operation"], told["ptr"], told["size"]] += 1
    assert logged == Counter((t["kind"], t["correlation"], t["start"], t["end"], t["name"]) for t in heard.of("work"))
    assert memory == Counter((t["operation"], t["address"], t["bytes"]) for t in heard.of("memory"))
    assert len(apart) == 1


def test_memory_agrees_with_the_log(heard):
    """What came and went is what the log's calls allocated and freed, but for graphs' memory."""
    kinds = {"device": 3, "async": 3, "managed": 5, "pinned": 2}
    came, went = Counter(), Counter()
    for line in lines(heard.log):
        told = fields(line)
        if line[4] != "0" or told.get("memory") not in kinds or told.get("ptr") == "0":
            continue
        to = went if "Free" in line[3] else came
        to[kinds[told["memory"]], int(told["ptr"]), int(told["size"]), int(told["correlation"])] += 1
    for operation, expected in ((1, came), (2, went)):
        assert expected == Counter((t["kind"], t["address"], t["bytes"], t["correlation"])
                                   for t in heard.of("memory") if t["operation"] == operation)


def test_copies_agree_with_the_log(heard):
    directions = {"H2D": {1, 3}, "D2H": {2, 4}, "D2D": {5, 6, 7, 8}, "H2H": {9}, "P2P": {10}}
    kinds = {"pageable": 1, "pinned": 2, "device": 3, "array": 4, "managed": 5}
    by_number = {told["correlation"]: told for told in heard.work(COPY) if not told["graph"]}
    logged = [line for line in lines(heard.log) if "direction" in fields(line)]
    for line in logged:
        told, number = fields(line), int(fields(line)["correlation"])
        if number not in by_number:  # captured
            continue
        done = by_number[number]
        assert done["copy"] in directions[told["direction"]]
        assert (done["src"], done["dst"]) == (kinds[told["src_kind"]], kinds[told["dst_kind"]])
        assert done["bytes"] == int(told["bytes"])


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    return listen(tmp_path_factory.mktemp("static"), APPS / "static_cudart")


def test_parameters(static):
    malloc = [(begin, end, outer) for begin, end, outer in static.pairs()
              if begin["name"] in ("cudaMalloc", "cuMemAlloc_v2")]
    for begin, end, outer in malloc:
        out, size = (int(word) for word in begin["words"].split(","))
        assert begin["words"] == end["words"]
        if outer:  # the driver fills in the same pointer
            assert begin["words"] == outer["words"]
        came = [told for told in static.of("memory") if told["correlation"] == begin["correlation"]]
        assert [told["bytes"] for told in came] == [size]
    launch = next(begin for begin, _, outer in static.pairs() if begin["name"] == "cuLaunchKernel" and outer)
    words = [int(word) for word in launch["words"].split(",")]
    # grid 4,2,1 and block 64,1,1 in pairs, 256 bytes of shared memory
    assert words[1:4] == [4 | 2 << 32, 1 | 64 << 32, 1 | 1 << 32] and words[4] & 0xffffffff == 256
    assert launch["kernel"] == "_Z3sumPfi"


def test_what_the_runtime_calls_inside(static):
    inside = {}
    for begin, _, outer in static.pairs():
        if outer:
            inside.setdefault(outer["name"], set()).add(begin["name"])
    assert inside["cudaMalloc"] == {"cuMemAlloc_v2", "cuDevicePrimaryCtxRetain"}
    for runtime, driver in (("cudaFree", "cuMemFree_v2"), ("cudaMallocAsync", "cuMemAllocAsync"),
                            ("cudaFreeAsync", "cuMemFreeAsync"), ("cudaHostAlloc", "cuMemHostAlloc"),
                            ("cudaFreeHost", "cuMemFreeHost"), ("cudaLaunchKernel", "cuLaunchKernel"),
                            ("__cudaLaunchKernel", "cuLaunchKernel"), ("cudaGraphLaunch", "cuGraphLaunch"),
                            ("cudaStreamSynchronize", "cuStreamSynchronize")):
        assert inside[runtime] == {driver}
    assert inside["cudaMemcpy"] == {"cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyDtoD_v2", "cuMemcpy"}
    assert inside["cudaMemcpyAsync"] == {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoDAsync_v2"}


def test_the_context_comes_inside_the_first_call(static):
    first = [(what, told.get("name")) for what, told in static.all[:6]]
    assert first == [("injected", None), ("enter", "cudaMalloc"), ("enter", "cuDevicePrimaryCtxRetain"),
                     ("context", None), ("exit", "cuDevicePrimaryCtxRetain"), ("enter", "cuMemAlloc_v2")]
    assert [told["context"] for _, told in static.all if "context" in told and "name" in told][:4] == [0, 0, 1, 1]


def test_graphs_launches(static):
    launches = static.calls("cudaGraphLaunch")
    assert len(launches) == 3
    whole = {told["correlation"]: told for told in static.work(GRAPH)}
    assert set(whole) == {told["correlation"] for told in launches}
    for number, graph in whole.items():
        nodes = [told for told in static.of("work") if told["correlation"] == number and told["kind"] in (KERNEL, COPY)]
        assert [told["kind"] for told in nodes] == [COPY, KERNEL, COPY]
        assert len({told["node"] for told in nodes}) == 3
        assert {told["graph"] for told in nodes} == {graph["graph"]} != {0}
        assert (graph["start"], graph["end"]) == (nodes[0]["start"], nodes[-1]["end"])
    assert {told["node"] for told in static.of("work") if told["correlation"] not in whole} == {0}


def test_streams_and_waits(static):
    kernels = static.work(KERNEL)
    assert {told["stream"] for told in kernels if not told["graph"]} == {7, 13}
    assert Counter(told["wait"] for told in static.work(WAIT)) == {1: 3, 2: 3, 3: 5, 4: 1}
    assert {told["stream"] for told in static.work(WAIT) if told["wait"] == 3} == {13}


def test_pools(static):
    assert [told["operation"] for told in static.of("pool")] == [1, 3, 2]
    own = static.of("pool")[0]["pool"]
    pools = {told["pool"] for told in static.of("memory") if told["async"]}
    assert own in pools and len(pools) == 2


@pytest.fixture(scope="module")
def everycall(tmp_path_factory):
    if not (APPS / "everycall").exists():
        pytest.skip("not built")
    folder = tmp_path_factory.mktemp("everycall")
    heard = listen(folder, APPS / "everycall", STANDIN_DEVICES="2")
    heard.log = folder / "log"
    return heard


def test_a_librarys_own_launches(everycall):
    """cuBLAS launches with a runtime of its own: a call that is heard of, and has no line."""
    logged = {int(fields(line)["correlation"]) for line in lines(everycall.log) if "correlation" in fields(line)}
    launches = {told["correlation"]: told for told in everycall.calls("cudaLaunchKernel")
                if told["correlation"] not in logged}
    kernels = {told["correlation"]: told["name"] for told in everycall.work(KERNEL)}
    names = {told["kernel"] for told in launches.values()}
    assert "cublas_gemm_0_NN_kernel" in names and "ncclDevKernel_SendRecv" in names
    assert all(kernels[number] == told["kernel"] for number, told in launches.items() if not told["status"])
    functions = {told["words"].split(",")[0] for told in launches.values()}
    assert len(functions) == len(names), "each kernel has a function of its own"


def test_injection_once_in_each_process(tmp_path):
    heard = listen(tmp_path, PROBE, "fork-before")
    assert len({told["pid"] for told in heard.of("injected")}) == len(heard.of("injected")) == 2
    notes = [line.split(" ") for line in (tmp_path / "log").read_text().splitlines() if line.startswith("#injection")]
    assert [note[2] for note in notes] == [str(LISTENER)] * 2


def test_a_library_that_is_not_there(tmp_path):
    done = run([str(APPS / "static_cudart")], CUDA_INJECTION64_PATH=str(tmp_path / "none.so"))
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


def test_the_log_without_a_listener(tmp_path):
    """STANDIN_LOG_GPU alone; and without it the log has none of this."""
    for wanted in ("1", "0"):
        log = tmp_path / f"log{wanted}"
        done = run([str(APPS / "static_cudart")], "--log", str(log), STANDIN_LOG_GPU=wanted)
        assert done.returncode == 0, done.stderr
        notes = [line for line in log.read_text().splitlines() if line.startswith("#gpu")]
        numbered = [line for line in lines(log) if "correlation" in fields(line)]
        assert (len(notes) > 60 and len(numbered) > 60) if wanted == "1" else not (notes or numbered)


def test_twins_have_twins_inside(everycall):
    twins = {(outer["name"], begin["name"]) for begin, _, outer in everycall.pairs()
             if outer and begin["name"] != "cuDevicePrimaryCtxRetain" and outer["name"].endswith(("_ptsz", "_ptds"))}
    assert ("cudaMemcpyAsync_ptsz", "cuMemcpyHtoDAsync_v2_ptsz") in twins
    assert all(inner[-5:] == outer[-5:] for outer, inner in twins)


def test_pairs_of_every_call(everycall):
    assert len({begin["name"] for begin, _, _ in everycall.pairs()}) > 200
