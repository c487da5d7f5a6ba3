"""Objects that do something whenever they are looked at. What they were asked is printed: nothing."""

import torch

from listing import at, listing, run_out, say, settle

touched = []


def trap(name, answer=None):
    def method(self, *_, **__):
        touched.append(name)
        if answer is None:
            raise RuntimeError(f"{name} was called")
        return answer
    return method


NAMES = ("__eq__", "__ne__", "__hash__", "__len__", "__bool__", "__repr__", "__str__", "__iter__", "__contains__",
         "__getitem__", "__call__", "__dir__", "__sizeof__", "__reduce_ex__", "__del__", "__next__", "__lt__",
         "__instancecheck__", "__subclasscheck__", "keys", "items", "values")
traps = {name: trap(name) for name in NAMES if name != "__del__"}


class Attributes:
    """Every attribute is a computation, and one that fails."""

    def __init__(self, kept):
        object.__setattr__(self, "kept", kept)

    def __getattribute__(self, name):
        touched.append(f"__getattribute__ {name}")
        raise AttributeError(name)

    def __getattr__(self, name):
        touched.append(f"__getattr__ {name}")
        raise AttributeError(name)


class Property:
    def __init__(self, kept):
        self.kept = kept

    @property
    def data(self):
        touched.append("property")
        return torch.ones(1 << 30, device="cuda")

    @property
    def __class__(self):
        touched.append("__class__")
        return torch.Tensor

    @property
    def __dict__(self):
        touched.append("__dict__")
        return {"other": 1}


class Meta(type):
    def __getattribute__(cls, name):
        if name not in ("__init__", "__new__"):
            touched.append(f"class {name}")
        return super().__getattribute__(name)

    def __instancecheck__(cls, thing):
        touched.append("isinstance")
        return True


class OfMeta(metaclass=Meta):
    def __init__(self, kept):
        self.kept = kept


class Descriptor:
    def __get__(self, thing, owner):
        touched.append("descriptor")
        raise RuntimeError("descriptor")


class Described:
    loud = Descriptor()

    def __init__(self, kept):
        self.kept = kept


class Loud:
    def __init__(self, kept):
        self.kept = kept


class LoudList(list):
    pass


class LoudDict(dict):
    pass


class LoudTensor(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        touched.append(f"__torch_function__ {function}")
        return super().__torch_function__(function, types, args, kwargs or {})


for name, method in traps.items():
    setattr(Loud, name, method)
    if name not in ("__iter__", "__len__", "__getitem__"):
        setattr(LoudList, name, method)
for name in ("__iter__", "__len__", "__getitem__", "__eq__", "__repr__", "__bool__", "__contains__", "keys", "items",
             "values"):
    setattr(LoudDict, name, traps[name])
for name in ("__iter__", "__len__", "__getitem__"):
    setattr(LoudList, name, traps[name])

kept = {}


def made(name):
    t = torch.empty(256 + 128 * len(kept), device="cuda")
    kept[name] = at(t)
    return t


attributes = Attributes(made("__getattribute__"))
prop = Property(made("property"))
of_meta = OfMeta(made("metaclass"))
described = Described(made("descriptor"))
loud = Loud(made("methods"))
loud_list = LoudList([made("list")])
loud_dict = LoudDict(k=made("dict"))
odd_keys = {Loud.__new__(Loud).__class__: made("key"), (1, frozenset([2])): made("tuple key"), None: made("None key"),
            "a" * 100_000: made("long key"), "quote'\n\0\ud800": made("odd key")}
recursive = [made("recursive")]
recursive.append(recursive)
deep = made("deep")
for _ in range(50_000):
    deep = [deep]
of_subclass = torch.empty(100_000, device="cuda").as_subclass(LoudTensor)
kept["subclass"] = torch._C.TensorBase.untyped_storage(of_subclass).data_ptr()
del touched[:]
run_out()
settle()
say(touched=touched[:], kept=kept)
# To the end without the traps: what tears them down is Python.
while type(deep) is list:
    deep = deep[0]
