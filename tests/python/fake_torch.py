"""What the tensor census asks of PyTorch, without PyTorch: for interpreters that have none.

Importing it puts a `torch` and a `torch._C` among the modules. A Tensor is on a device that is not
there, and only says where its memory would be.
"""

import sys
import types

_next_address = 0x700000000000


class DType:
    def __init__(self, name, size):
        self.name, self.size = name, size

    def __str__(self):
        return "torch." + self.name


float32, float16 = DType("float32", 4), DType("float16", 2)


class StorageBase:
    __slots__ = ("address", "size")

    def __init__(self, size):
        global _next_address
        self.address, self.size = _next_address, size
        _next_address += (size + 511) // 512 * 512

    def nbytes(self):
        return self.size

    def data_ptr(self):
        return self.address


class TensorBase:
    __slots__ = ("_storage", "_shape", "_stride", "_offset", "_dtype", "_kept", "_function", "__weakref__")

    def __init__(self, *shape, of=None, offset=0, stride=None, dtype=float32):
        bytes_ = dtype.size
        for n in shape:
            bytes_ *= n
        self._storage = of._storage if of is not None else StorageBase(bytes_)
        self._shape, self._offset, self._dtype = shape, offset, dtype
        self._kept, self._function = None, None
        dense, step = [], 1
        for n in reversed(shape):
            dense.insert(0, step)
            step *= n
        self._stride = tuple(dense) if stride is None else stride

    is_cuda = property(lambda self: True)
    shape = property(lambda self: self._shape)
    dtype = property(lambda self: self._dtype)
    requires_grad = property(lambda self: self._kept is not None)
    is_leaf = property(lambda self: self._function is None)
    retains_grad = property(lambda self: False)
    grad = property(lambda self: self._kept)
    grad_fn = property(lambda self: self._function)

    def get_device(self):
        return 0

    def untyped_storage(self):
        return self._storage

    def stride(self):
        return self._stride

    def storage_offset(self):
        return self._offset

    def element_size(self):
        return self._dtype.size

    def _is_view(self):
        return False


class Tensor(TensorBase):
    """As torch.Tensor: with a __dict__."""


class Module:
    """As nn.Module: attributes in three dicts of its own."""

    def __init__(self):
        self._parameters, self._buffers, self._modules = {}, {}, {}

    def __getattr__(self, name):
        for part in (self._parameters, self._buffers, self._modules):
            if name in part:
                return part[name]
        raise AttributeError(name)


class DisableTorchFunction:
    entered = 0

    def __enter__(self):
        DisableTorchFunction.entered += 1

    def __exit__(self, *_unused):
        DisableTorchFunction.entered -= 1


def _module(name, **content):
    module = types.ModuleType(name)
    module.__dict__.update(content)
    sys.modules[name] = module
    return module


_C = _module("torch._C", TensorBase=TensorBase, StorageBase=StorageBase, DisableTorchFunction=DisableTorchFunction)
_module("torch", _C=_C, Tensor=Tensor)
_module("torch.nn.modules.module", Module=Module)
