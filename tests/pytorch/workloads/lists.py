"""Operations over lists of tensors: for each, one line with the addresses that its kernels write, and read."""

import json

import torch

kept = []


def fresh(count=5):
    tensors = [torch.ones(7 + i, 11, device="cuda") for i in range(count)]
    kept.append(tensors)
    return tensors


def tell(name, written, read):
    print(json.dumps({"name": name, "written": [t.data_ptr() for t in written], "read": [t.data_ptr() for t in read]}))


a, b = fresh(), fresh()
torch._foreach_add_(a, b)
tell("add into the first list", a, b)
a = fresh()
made = torch._foreach_mul(a, 2.0)
kept.append(made)
tell("mul into a new list", made, a)
a, b, c = fresh(), fresh(), fresh()
torch._foreach_addcmul_(a, b, c, 0.5)
tell("addcmul", a, b + c)
a, b, c = fresh(), fresh(), fresh()
torch._foreach_addcdiv_(a, b, c, [0.5] * len(a))
tell("addcdiv with scalars", a, b + c)
a = fresh()
torch._foreach_zero_(a)
tell("zero", a, [])
a = fresh()
kept.append(torch._foreach_norm(a))
tell("norm", [], a)
a = fresh(70)
torch._foreach_sqrt_(a)
tell("more than one record has room for", a[:64], [])
for settings in ({"foreach": True}, {"fused": True}):
    weights = [torch.nn.Parameter(t) for t in fresh()]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.SGD(weights, lr=0.1, momentum=0.9, **settings)
    optimizer.step()
    optimizer.step()
    tell(f"SGD {settings}", [w.data for w in weights], [])
torch.cuda.synchronize()
