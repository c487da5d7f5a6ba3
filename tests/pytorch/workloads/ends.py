"""Ways in which a Python program with CUDA ends, or is disturbed: one function each.

Usage: python ends.py WAY LIBRARY     (LIBRARY: built of tests/pytorch/pluggable.c)
"""

import atexit
import ctypes
import gc
import importlib.abc
import os
import signal
import sys
import threading
import time

KEPT = {}  # cleared late in the interpreter's shutdown


def import_torch():
    import torch
    return torch


def train(torch, steps=3):
    model = torch.nn.Linear(32, 32).cuda()
    for _ in range(steps):
        model(torch.randn(8, 32).cuda()).sum().backward()
    return model


def say(text):
    print(text, flush=True)


def alive():
    """Everything that can be alive at the end: globals, a cycle, pinned memory, a stream, a graph."""
    torch = import_torch()
    KEPT["model"] = train(torch)
    KEPT["pinned"] = torch.zeros(1000, pin_memory=True)
    KEPT["stream"] = torch.cuda.Stream()
    KEPT["graph"] = graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        KEPT["static"] = torch.zeros(1000, device="cuda") + 1
    cycle = {"tensor": torch.zeros(5000, device="cuda")}
    cycle["self"] = cycle
    torch.kept_by_the_module = torch.ones(100, device="cuda")
    say("alive")


def at_exit():
    """Work in an atexit handler and in a destructor that the shutdown calls."""
    torch = import_torch()

    class Late:
        def __del__(self):
            torch.zeros(64, device="cuda")

    KEPT["late"] = Late()
    train(torch)
    atexit.register(lambda: say(f"at exit {train(torch).weight.device}"))


def daemon():
    """Daemon threads that are in CUDA, or sleep, when the interpreter goes. In CUDA without torch: its
    own calls end the process with "terminate called" when the interpreter goes under them."""
    torch = import_torch()
    torch.cuda.init()
    native, ready = library(), threading.Barrier(4)

    def hurry():
        KEPT["hurried"] = torch.zeros(1000, device="cuda")
        native.pluggable_rounds(1)
        ready.wait()
        while True:
            native.pluggable_rounds(3)

    def sleep():
        KEPT["slept"] = torch.zeros(1000, device="cuda").add_(1)
        ready.wait()
        time.sleep(1000)

    for work in (hurry, hurry, sleep):
        threading.Thread(target=work, daemon=True).start()
    ready.wait()
    train(torch)
    say("daemons run")


def leave():
    """os._exit: no handler, no destructor."""
    torch = import_torch()
    KEPT["model"] = train(torch)
    say("leaving")
    os._exit(7)


def kill():
    """SIGKILL, while tensors are alive."""
    torch = import_torch()
    KEPT["model"] = train(torch)
    torch.cuda.synchronize()
    say("killing")
    os.kill(os.getpid(), signal.SIGKILL)


def abort():
    torch = import_torch()
    KEPT["model"] = train(torch)
    say("aborting")
    os.abort()


def exit_in_thread():
    """sys.exit in a thread ends the thread; the program goes on, and exits with a status of its own."""
    torch = import_torch()

    def work():
        KEPT["tensor"] = torch.zeros(1000, device="cuda")
        sys.exit(3)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    train(torch)
    say("thread is gone")
    sys.exit(5)


def uncaught():
    """An exception that nobody catches, out of a CUDA call."""
    torch = import_torch()
    KEPT["tensor"] = torch.zeros(10, 10, device="cuda")
    KEPT["tensor"] @ torch.zeros(7, 7, device="cuda")


def caught():
    """Exceptions through CUDA calls: a bad device, out of memory, one thrown in a backward's Python."""
    torch = import_torch()

    class Bad(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            torch.zeros(100, device="cuda")
            raise ValueError("in backward")

    def backward():
        Bad.apply(torch.ones(10, device="cuda", requires_grad=True)).sum().backward()

    names = []
    for attempt in (lambda: torch.zeros(1, device="cuda:5"), lambda: torch.zeros(1 << 40, device="cuda"), backward):
        for _ in range(3):
            try:
                attempt()
            except Exception as error:
                names.append(type(error).__name__)
    train(torch)
    say(" ".join(sorted(set(names))) + f" {len(names)}")


def alarm():
    """A signal handler that allocates, while the main thread allocates."""
    torch = import_torch()
    torch.cuda.init()
    seen = []

    def handler(number, frame):
        seen.append(torch.zeros(500, device="cuda"))
        seen.append(torch.ones(500).cuda())
        del seen[:-8]
        KEPT["alarms"] = KEPT.get("alarms", 0) + 1
        if KEPT["alarms"] < 50:  # never inside itself
            signal.setitimer(signal.ITIMER_REAL, 0.001)

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    end = time.monotonic() + 30
    while KEPT.get("alarms", 0) < 50 and time.monotonic() < end:
        train(torch, 1)
    say(f"{KEPT['alarms']} alarms")


def interrupted():
    """Ctrl-C in the middle of a training loop."""
    torch = import_torch()
    train(torch)
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            train(torch, 1)
    except KeyboardInterrupt:
        pass
    torch.cuda.synchronize()
    say("interrupted")


def collected():
    """Tensors that the garbage collector frees, in other threads than they were made in."""
    torch = import_torch()
    gc.disable()

    def make():
        for size in range(1, 50):
            cycle = [torch.zeros(size * 100, device="cuda")]
            cycle.append(cycle)

    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = torch.cuda.memory_allocated()
    gc.collect()
    say(f"collected {before > 0 and torch.cuda.memory_allocated() == 0}")


class Refuse(importlib.abc.MetaPathFinder):
    """Makes one module of torch fail to import."""

    def __init__(self, name):
        self.name = name

    def find_spec(self, name, path=None, target=None):
        if name == self.name:
            raise ImportError(f"no {name} today")


def library():
    return ctypes.CDLL(sys.argv[2])


def broken_import():
    """import torch fails half way, its libraries loaded; the program goes on by itself."""
    sys.meta_path.insert(0, Refuse("torch.functional"))
    try:
        import torch  # noqa: F401
        failed = False
    except ImportError:
        failed = True
    loaded = any("libtorch_cuda.so" in line for line in open("/proc/self/maps"))
    say(f"failed {failed}, loaded {loaded}, {library().pluggable_rounds(20)} rounds")


def extension_only():
    """torch's native part alone, never initialised: no torch package, no device."""
    from importlib.machinery import PathFinder
    folder = os.path.join(PathFinder.find_spec("torch").submodule_search_locations[0], "lib")
    ctypes.CDLL(os.path.join(folder, "libtorch_python.so"), mode=ctypes.RTLD_GLOBAL)
    say(f"torch {'torch' in sys.modules}, {library().pluggable_rounds(20)} rounds")


def sub_interpreter():
    """CUDA calls from sub-interpreters, torch being busy in the main one."""
    torch = import_torch()
    train(torch)
    import _xxsubinterpreters as interpreters
    code = f"import ctypes; assert ctypes.CDLL({sys.argv[2]!r}).pluggable_rounds(20) == 20"
    made = [interpreters.create() for _ in range(3)]
    for interpreter in made:
        interpreters.run_string(interpreter, code)
        torch.zeros(1000, device="cuda").add_(1)  # no backward: autograd no longer can tell who has the GIL
    for interpreter in made:
        interpreters.destroy(interpreter)
        torch.zeros(1000, device="cuda").add_(1)
    say(f"{len(made)} sub-interpreters")


def native_thread():
    """Threads that Python has never seen, while Python's own are in CUDA too."""
    torch = import_torch()
    train(torch)
    ran = library().pluggable_threads(4, 25)
    train(torch)
    say(f"{ran} rounds")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
