"""Calls from every kind of Python frame: see probe.py. Prints how many, and how many code objects
lay where another one had been freed."""

import asyncio
import contextlib
import ctypes
import functools
import sys
import threading

from probe import notes, probe

ROUNDS = 12


def generators():
    def inner():
        for _ in range(3):
            probe()
            yield probe()

    def outer():
        yield from inner()
        yield from (probe() for _ in range(2))

    list(outer())
    running = inner()
    next(running)
    next(running)
    running.close()
    sent = (lambda: (yield probe()))()
    next(sent)


async def leaf():
    probe()
    await asyncio.sleep(0)
    return probe()


async def numbers():
    for i in range(2):
        yield probe() + i


class Managed:
    async def __aenter__(self):
        probe()

    async def __aexit__(self, *failure):
        await leaf()


async def root():
    await leaf()
    async for _ in numbers():
        probe()
    async with Managed():
        probe()
    await asyncio.gather(*(leaf() for _ in range(3)))
    return [probe() async for _ in numbers()]


def coroutines():
    asyncio.run(root())


COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


def c_callbacks():
    def compare(a, b):
        probe()
        return a[0] - b[0]

    numbers = (ctypes.c_int * 4)(3, 1, 2, 0)
    ctypes.CDLL(None).qsort(numbers, 4, ctypes.sizeof(ctypes.c_int), COMPARE(compare))
    sorted([3, 1, 2], key=probe)
    list(map(probe, range(2)))
    list(filter(lambda x: probe(x), range(2)))
    max([1, 2], key=lambda x: x + probe())
    functools.reduce(lambda a, b: a + b + probe(), [1, 2, 3])
    functools.partial(probe, 1)()
    functools.lru_cache(probe)()
    "{}".format(Spoken())
    str(Spoken())


class Spoken:
    def __str__(self):
        probe()
        return "spoken"

    __format__ = lambda self, spec: str(self)

    def __getattr__(self, name):
        return probe()

    @property
    def shown(self):
        return probe()

    @classmethod
    def made(cls):
        return probe()

    @staticmethod
    def still():
        return probe()

    def __eq__(self, other):
        return probe() == 0

    def __iter__(self):
        probe()
        return iter(())

    __hash__ = None


def methods():
    spoken = Spoken()
    spoken.missing, spoken.shown, Spoken.made(), Spoken.still(), spoken == 1, [*spoken]


def wrapper(times):
    def decorate(function):
        @functools.wraps(function)
        def around(*args, **more):
            for _ in range(times):
                function(*args, **more)
        probe()
        return around
    return decorate


def decorators():
    @wrapper(2)
    @wrapper(
        1)
    def wrapped(
            n=probe(),
            m=probe()):
        probe()

    wrapped()


def made_code():
    source = "def made(p):\n\n    if p():\n        pass\n    return [p()\n            for _ in range(2)]\nmade(p)\np()\n"
    exec(source, {"p": probe})
    exec(compile(source, "a folder/größe ∑ 😀.py", "exec"), {"p": probe})
    exec(compile(source.replace("made", "größe"), "latin-é.py", "exec"), {"p": probe})
    exec(compile(source.replace("made", "функция_𝔘"), "<made>", "exec"), {"p": probe})
    eval("(p(),\n p())", {"p": probe})
    gaps = "def made(p):\n" + "".join("    p()\n" + "\n" * (1 << i) for i in range(12)) + "made(p)\n"
    exec(gaps, {"p": probe})
    long = "def made(p):\n    x = 0\n" + ("    x = (x + 1) * 2 % 7\n" * 400 + "    p()\n") * 3 + "made(p)\n"
    exec(long, {"p": probe})


def deep(n):
    return probe() if n == 0 else deep(n - 1)


def endless(n=0):
    try:
        endless(n + 1)
    except RecursionError:
        if n == 700:
            probe()
        raise


def recursion():
    try:
        endless()
    except RecursionError:
        probe()
    for n in (1, 20, 100, 126, 127, 128, 129, 130, 200, 600):
        deep(n)


def in_thread():
    probe()
    deep(3)
    generators()


def threads():
    several = [threading.Thread(target=in_thread) for _ in range(3)]
    for one in several:
        one.start()
    for one in several:
        one.join()


def short_forms():
    (lambda: probe())()
    (lambda *a:
        [probe() for _ in range(2)
         if not probe()])()
    {probe(): probe() for _ in range(2)}
    {x for x in (probe() for _ in range(2))}
    [[probe() for _ in range(2)] for _ in range(2)]


class Meta(type):
    def __new__(mcs, *args):
        probe()
        return super().__new__(mcs, *args)


def class_bodies():
    class Plain(metaclass=Meta):
        probe()
        kept = [probe() for _ in range(2)]

        class Inner:
            probe()

    class Child(Plain,
                metaclass=Meta):
        def __init_subclass__(cls):
            probe()

    class Grandchild(Child):
        pass


def expressions():
    first = (probe(),
             probe(
                 probe(),

                 probe()),
             [probe()
              for _ in range(2)],
             probe() or
             probe(),
             )
    probe(); probe(first,
                   key_of(probe(), *[
                       probe()]))
    while not probe(
    ):
        break
    return (
        probe()
    )


def key_of(*values):
    return (probe(),
            *values)[0]


@contextlib.contextmanager
def context():
    probe()
    try:
        yield probe()
    finally:
        probe()


class Released:
    def __del__(self):
        probe()


def exceptions():
    try:
        probe()
        raise ValueError(
            probe())
    except ValueError:
        probe()
    else:
        probe()
    finally:
        probe()
    with context(), \
            context():
        probe()
    try:
        with context():
            probe()
            raise KeyError
    except KeyError as error:
        probe(error)
    for _ in range(2):
        try:
            continue
        finally:
            probe()
    held = Released()
    del held
    [Released() for _ in range(2)]


def traced():
    def tracer(frame, event, argument):
        probe()
        return tracer

    def body():
        x = 1
        return x

    sys.settrace(tracer)
    body()
    sys.settrace(None)
    sys.setprofile(lambda *a: probe() and None)
    body()
    sys.setprofile(None)


def freed_code(seen):
    """Functions of one shape, each gone before the next is made, with other names or lines."""
    reused = 0
    for i in range(1500):
        name = "f%04d" % (i % 1000)
        source = "def %s(p):\n%s    return p()\n" % (name if i % 3 else "same", "\n" * (i % 5))
        space = {}
        exec(compile(source, "<made %02d>" % (i % 7), "exec"), space)
        function = next(v for k, v in space.items() if not k.startswith("__"))
        reused += id(function.__code__) in seen
        seen.add(id(function.__code__))
        function(probe)
        del function, space
    return reused


def main():
    for _ in range(ROUNDS):
        for part in (generators, coroutines, c_callbacks, methods, decorators, short_forms, class_bodies,
                     expressions, exceptions, traced):
            part()
    made_code()
    recursion()
    threads()
    calls = len(notes)
    print(calls, freed_code(set()))


probe()
main()
