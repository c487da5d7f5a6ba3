"""Tensors of every kind that may not say what they are asked, or would run code of their own; modes that
see every operation. An out-of-memory error, and what the census has asked of them."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from listing import run_out, settle

asked = []


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        asked.append(function)
        return super().__torch_function__(function, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        asked.append(function)
        raise RuntimeError("this wrapper does nothing")


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        asked.append(function)
        return function(*args, **(kwargs or {}))


class Dispatches(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        asked.append(function)
        return function(*args, **(kwargs or {}))


def ones(*shape, **how):
    return torch.ones(*shape, device="cuda", **how)


with FakeTensorMode():
    fake = torch.empty(100, device="cuda")
meta = torch.empty(100, device="meta")
subclass = ones(101).as_subclass(Subclass)
wrapper = Wrapper(ones(102))
lazy = torch._lazy_clone(ones(103))
expanded = ones(104, 1).expand(104, 7)
permuted = ones(3, 5, 7).permute(2, 0, 1)
empty = torch.empty(0, device="cuda")
given_back = ones(105)
given_back.untyped_storage().resize_(0)
half = ones(106, dtype=torch.bfloat16)
complex_ = ones(107, dtype=torch.complex64)
flags = ones(108, dtype=torch.bool)
no_leaf = ones(109, requires_grad=True) * 2
kept_grad = ones(110, requires_grad=True) * 2
kept_grad.retain_grad()
kept_grad.sum().backward()
scalar = ones(())
many_dims = ones((1,) * 20)
parameter = torch.nn.Parameter(ones(111), requires_grad=False)
transposed = ones(4, 6).t()
batched = []
torch.vmap(lambda x: batched.append(x) or x)(ones(3, 112))

allocated = torch.cuda.memory_allocated()
with Functions(), Dispatches():
    asked.clear()
    run_out()
    settle()
    seen = [f for f in asked if "empty" not in str(f)]
print(seen, torch.cuda.memory_allocated() - allocated, torch._C._is_cow_tensor(lazy))
