"""Censuses at any moment of a busy program: threads, generators, coroutines, exceptions, classes and
cycles that come and go, recursion, code that is made and forgotten. Its results and what it leaves
behind must be as without them.

Usage: census_storm.py SECONDS. Prints "done".
"""

import asyncio
import ctypes
import gc
import mmap
import os
import sys
import threading
import time
import weakref

from census_spool import wish_in
from fake_torch import Module, Tensor

cuda = ctypes.CDLL(None)
over = threading.Event()


def call(pointer):
    cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64))
    cuda.cudaFree(pointer)


def wisher(ready):
    """Wishes censuses, and makes the calls that see the wish."""
    pointer = ctypes.c_void_p()
    call(pointer)
    with open(os.environ["LAYOUTSPY_OUT"] + ".spool", "r+b") as f, mmap.mmap(f.fileno(), 4096) as header:
        ready.set()
        while not over.wait(0.02):
            wish_in(header)
            call(pointer)


def generate(n):
    kept = [Tensor(2)]
    for i in range(n):
        kept.append(Tensor(1))
        yield i
        if i % 3 == 0:
            kept.pop()


def delegate(n):
    yield from generate(n)


def work_with_generators():
    half_way = delegate(10)
    next(half_way)
    assert sum(delegate(50)) == 1225
    half_way.close()
    unfinished = generate(5)
    next(unfinished)


async def sleeper(n):
    kept = Tensor(n + 1)
    await asyncio.sleep(0)
    try:
        await asyncio.wait_for(asyncio.sleep(0), 1)
    finally:
        del kept
    return n


async def agenerate(n):
    for i in range(n):
        kept = Tensor(1)
        await asyncio.sleep(0)
        yield i
        del kept


async def coroutines():
    assert sum(await asyncio.gather(*(sleeper(i) for i in range(20)))) == 190
    assert [i async for i in agenerate(5)] == [0, 1, 2, 3, 4]


def deep(n, kept):
    mine = (kept, n)
    if n == 0:
        raise ValueError(len(mine))
    try:
        deep(n - 1, [mine])
    except ValueError as error:
        if n % 7 == 0:
            raise KeyError(n) from error
        raise


def work_with_exceptions():
    try:
        deep(30, Tensor(3))
    except KeyError as error:
        assert error.args == (7,)
        trace = error.__traceback__
        depth = 0
        while trace:
            depth += 1
            trace = trace.tb_next
        assert depth == 25, depth


def work_with_classes():
    class Local(Module):
        __slots__ = ("slot",)
        held = Tensor(4)

        def method(self):
            return lambda: (self, __class__)

    one = Local()
    one.slot = one.method()
    one._modules["me"] = one
    space = {}
    exec(compile("def made(x):\n    y = [x]\n    def inner():\n        return y\n    return inner\n", "<made>", "exec"), space)
    assert space["made"](one)()[0] is one
    return weakref.ref(one)


def work_with_containers():
    things = {i: [Tensor(1), {str(i): (i,)}] for i in range(50)}
    for i in range(0, 50, 2):
        del things[i]
    assert sorted(things) == list(range(1, 50, 2))
    many = [Tensor(1) for _ in range(100)]
    many.sort(key=id)
    assert len({id(t) for t in many}) == 100


def in_thread():
    while not over.is_set():
        work_with_generators()
        work_with_exceptions()
        work_with_containers()


def main(seconds):
    ready = threading.Event()
    threads = [threading.Thread(target=wisher, args=(ready,), daemon=True)]
    threads[0].start()
    ready.wait(10)
    threads += [threading.Thread(target=in_thread, daemon=True) for _ in range(2)]
    for thread in threads[1:]:
        thread.start()
    end, refs, rounds = time.monotonic() + seconds, [], 0
    sys.setswitchinterval(0.0005)
    while time.monotonic() < end or rounds < 3:
        work_with_generators()
        work_with_exceptions()
        refs.append(work_with_classes())
        work_with_containers()
        asyncio.run(coroutines())
        rounds += 1
    over.set()
    for thread in threads:
        thread.join()
    gc.collect()
    alive = [ref for ref in refs if ref() is not None]
    if alive:
        print(f"{len(alive)} of {len(refs)} live on")
    print("done")


main(float(sys.argv[1]))
