"""Tensors in all the places where objects can be kept, and objects that misbehave when they are asked
anything. One census is wished while they are there; nothing may have changed after it.

Prints what differs, and "done". The paths are compared by test_census.py.
"""

import asyncio
import collections
import ctypes
import functools
import gc
import os
import sys
import threading
import time
import types
import weakref
from pathlib import Path

from fake_torch import DisableTorchFunction, Module, Tensor, float16
from census_spool import wish

cuda = ctypes.CDLL(None)
pointer = ctypes.c_void_p()


def call():
    cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64))
    cuda.cudaFree(pointer)


took = 0.0


def census():
    global took
    time.sleep(took * 1.5)  # a program gets as much time as censuses take
    start = time.monotonic()
    wish(Path(os.environ["LAYOUTSPY_OUT"] + ".spool"))
    call()  # sees the wish
    for _ in range(100):  # its pending call is made at the next chance
        len([])
    took = time.monotonic() - start


# ---- where things are kept ----

plain = Tensor(10)
half = Tensor(4, 6, dtype=float16)
view = Tensor(3, of=half, offset=6, stride=(2,), dtype=float16)
losses = [Tensor(1) for _ in range(413)]
cache = {"k": Tensor(11), 7: Tensor(12), ("a", 1): Tensor(13), -1: Tensor(14), "\u00e9t\u00e9": Tensor(15)}
pair = (Tensor(16), [Tensor(17)])
ring = collections.deque([1, Tensor(18), Tensor(19)])
some = {Tensor(20)}
by_tensor = {plain: Tensor(21)}
tied = Tensor(22)
tied_too = tied


class Plain:
    held_by_class = Tensor(23)


class Slots:
    __slots__ = ("first", "second")


class SlotsAndDict(Slots):
    pass


class Keeps(dict):
    pass


class Listed(list):
    pass


Point = collections.namedtuple("Point", "x y")

thing = Plain()
thing.inner = Plain()
thing.inner.weight = Tensor(24)
for _i in range(40):  # more than are kept beside an object
    setattr(thing, f"number_{_i}", _i)
thing.last = Tensor(25)
slotted = Slots()
slotted.second = Tensor(26)
both = SlotsAndDict()
both.first, both.extra = Tensor(27), Tensor(28)
keeps = Keeps(inside=Tensor(29))
keeps.beside = Tensor(30)
listed = Listed([Tensor(31)])
listed.beside = Tensor(32)
point = Point(Tensor(33), 1)
space = types.SimpleNamespace(value=Tensor(34))

model = Module()
model._modules["layers"] = Module()
model._modules["layers"]._modules["3"] = Module()
model._modules["layers"]._modules["3"]._parameters["weight"] = Tensor(35)
model._modules["layers"]._modules["3"]._parameters["weight"]._kept = Tensor(36)
model._buffers["mean"] = Tensor(37)
model.cached = [Tensor(38)]
plain.attribute = Tensor(39)


def make_closure():
    captured = Tensor(40)

    def inner():
        return captured

    return inner


closure = make_closure()


def with_default(value=Tensor(41), *, key=Tensor(42)):
    return value, key


partial = functools.partial(len, Tensor(43), keyword=Tensor(44))


def generate():
    kept = Tensor(45)
    yield 1
    yield kept


generator = generate()
next(generator)


async def wait_for():
    awaited = Tensor(46)
    await asyncio.sleep(1000)
    return awaited


coroutine = wait_for()


def fail():
    local_of_fail = Tensor(47)
    raise ValueError(len([local_of_fail]))


errors = []
try:
    fail()
except ValueError as error:
    errors.append(error)


def cycle():
    node = Plain()
    node.me = node
    node.lost = Tensor(48)


def cycle_of_lists():
    a, b = [Tensor(49)], []
    a.append(b)
    b.append(a)


class Iterates:
    def __init__(self):
        self.tensors = [Tensor(50)]
        self.iterator = iter(self.tensors)


iterates = Iterates()


def makes_a_class():
    class Local:
        held = Tensor(51)

    return Local()


of_a_class = makes_a_class()
namespace = types.ModuleType("not_among_the_modules")
namespace.value = Tensor(52)

# ---- what misbehaves ----

asked = []


class Rude:
    """Whatever is asked of it is noted, and fails."""

    def __init__(self):
        object.__setattr__(self, "kept", Tensor(60))

    def __getattribute__(self, name):
        asked.append(name)
        raise RuntimeError("do not ask")

    def __eq__(self, other):
        asked.append("__eq__")
        raise RuntimeError("do not compare")

    def __hash__(self):
        asked.append("__hash__")
        return 1

    def __len__(self):
        asked.append("__len__")
        raise RuntimeError("do not count")

    def __iter__(self):
        asked.append("__iter__")
        raise RuntimeError("do not iterate")

    def __repr__(self):
        asked.append("__repr__")
        raise RuntimeError("do not show")

    __str__ = __bool__ = __repr__
    __class__ = property(lambda self: asked.append("__class__"))


class RudeMeta(type):
    def __instancecheck__(cls, instance):
        asked.append("__instancecheck__")
        raise RuntimeError("do not check")

    def __subclasscheck__(cls, other):
        asked.append("__subclasscheck__")
        raise RuntimeError("do not check")

    def __getattribute__(cls, name):
        if not name.startswith("__"):
            asked.append(name)
        return super().__getattribute__(name)


class Checked(metaclass=RudeMeta):
    pass


class RudeTensor(Tensor):
    """A subclass whose attributes lie."""

    shape = property(lambda self: asked.append("shape"))
    is_cuda = property(lambda self: asked.append("is_cuda"))

    def untyped_storage(self):
        asked.append("untyped_storage")
        raise RuntimeError("do not ask")


class RudeDict(dict):
    def __getitem__(self, key):
        asked.append("__getitem__")
        raise KeyError(key)

    __iter__ = keys = items = values = get = __len__ = __getitem__


class RudeKey(str):
    def __eq__(self, other):
        asked.append("__eq__")
        raise RuntimeError("do not compare")

    def __hash__(self):
        return 5


class Dies:
    def __del__(self):
        asked.append("__del__")


class Broken(Tensor):
    """Says nothing: it is left out, its neighbours are not."""

    __torch_dispatch__ = lambda *_unused: asked.append("__torch_dispatch__")


rude = Rude()
in_rude = {rude: Tensor(61)}
checked = Checked()
checked.kept = Tensor(62)
rude_tensor = RudeTensor(63)
rude_dict = RudeDict(kept=Tensor(64))
by_rude_key = {RudeKey("key"): Tensor(65)}
wrapper = Broken(66)
wrapper.inner = Tensor(67)
dies = Dies()
dies.me = dies
dies.kept = Tensor(68)
del dies
deep = [Tensor(69)]
for _i in range(5000):
    deep = [deep]
asked.clear()

# ---- nothing may have changed ----


def everything():
    return [o for o in gc.get_objects() if isinstance(type(o), type) and type(o) in
            (Tensor, Plain, Module, Slots, SlotsAndDict, Keeps, Listed, types.FunctionType, types.FrameType,
             types.TracebackType, types.GeneratorType, types.CellType, type)]


def counts(objects):
    return [sys.getrefcount(o) for o in objects]


def thread_main(ready, over):
    local_of_thread = [Tensor(70)]
    ready.set()
    over.wait()
    return local_of_thread


def handling():
    raised_here = Tensor(71)
    raise KeyError(sys.getsizeof(raised_here))


def paths_of_all():
    """The first census, whose paths are compared."""
    local_of_main = {"x": Tensor(72)}
    cell_of_main = Tensor(73)
    weak = weakref.ref(local_of_main["x"])
    cell = (lambda: cell_of_main)()
    cycle()
    cycle_of_lists()
    try:
        handling()
    except KeyError as error:
        before = (id(error.__traceback__), error.__context__, error.__cause__, error.args)
        census()
        if (id(error.__traceback__), error.__context__, error.__cause__, error.args) != before:
            print("the exception has changed")
        if sys.exc_info()[1] is not error:
            print("another exception is being handled")
    del local_of_main, cell
    if weak() is not None:
        print("a tensor lives on")


def counts_of_all():
    """What is made once is made: now nothing may differ."""
    gc.collect()
    cycle()
    objects = everything()
    before = counts(objects)
    census()
    after = counts(objects)
    for o, a, b in zip(objects, before, after):
        if a != b:
            print(f"{type(o).__name__} {o!r:.80} had {a} references, has {b}")


def collector():
    for switched in (True, False):
        gc.enable() if switched else gc.disable()
        before = gc.get_stats()
        census()
        if gc.isenabled() != switched:
            print("the collector was switched", "off" if switched else "on")
        if not switched and gc.get_stats() != before:
            print("a collection ran")
    gc.enable()


def main():
    ready, over = threading.Event(), threading.Event()
    thread = threading.Thread(target=thread_main, args=(ready, over), daemon=True)
    thread.start()
    ready.wait()
    call()
    asked.clear()
    gc.disable()
    paths_of_all()
    if asked:
        print("asked:", sorted(set(asked)))
    gc.enable()
    counts_of_all()
    collector()
    if DisableTorchFunction.entered:
        print("the guard was not left")
    over.set()
    thread.join()
    coroutine.close()
    print("done")


main()
