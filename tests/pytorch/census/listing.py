"""What a script itself says of its device tensors, for the tests to compare a census with."""

import gc
import json

import torch


def tensors():
    """Every Python object that is a device tensor, and the gradients of those that have one."""
    found = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and thing.is_cuda:
            found[id(thing)] = thing
            if thing.is_leaf and thing.grad is not None:
                found[id(thing.grad)] = thing.grad
    return list(found.values())


def listing():
    """Storages by address, and (address, shape, strides) of each tensor, sorted; no reference is kept."""
    storages, each = {}, []
    for t in tensors():
        s = t.untyped_storage()
        storages[s.data_ptr()] = s.nbytes()
        each.append([s.data_ptr(), list(t.shape), list(t.stride())])
    return {"storages": sorted(storages.items()), "tensors": sorted(each)}


def at(t):
    return t.untyped_storage().data_ptr()


def run_out():
    """An out-of-memory error, caught here."""
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        return
    raise AssertionError("there was memory")


def settle():
    """A few instructions of Python, between which a census can be made."""
    return sum(len(str(n)) for n in range(2000))


def say(**what):
    print(json.dumps(what), flush=True)
