"""Copies of all kinds, small enough to be enumerated: for each, one line with what Python says of the
two sides. Every result is kept, so that each has an address of its own."""

import json
import sys

import torch

kept = []


def side(tensor):
    return {"address": tensor.data_ptr(), "sizes": list(tensor.shape), "strides": list(tensor.stride()),
            "bytes": tensor.element_size(), "dtype": str(tensor.dtype).removeprefix("torch.")}


def tell(name, kind, dst, sources):
    kept.append((dst, sources))
    print(json.dumps({"name": name, "kind": kind, "dst": side(dst), "src": [side(source) for source in sources]}))


def fresh(*sizes, dtype=torch.float32):
    tensor = torch.empty(sizes, device="cuda", dtype=dtype)
    kept.append(tensor)
    return tensor


VIEWS = {
    "transpose": lambda: fresh(6, 9).t(),
    "permute": lambda: fresh(2, 3, 5, 7).permute(3, 1, 0, 2),
    "permute 5": lambda: fresh(2, 3, 2, 4, 5).permute(4, 2, 0, 3, 1),
    "permute 7": lambda: fresh(2, 3, 2, 3, 2, 3, 2).permute(6, 4, 2, 0, 5, 3, 1),
    "step": lambda: fresh(6, 10)[:, ::2],
    "two steps": lambda: fresh(8, 10)[1::3, 1::2],
    "narrow": lambda: fresh(6, 10).narrow(1, 3, 4),
    "expand rows": lambda: fresh(1, 9).expand(6, 9),
    "expand columns": lambda: fresh(6, 1).expand(6, 9),
    "expand middle": lambda: fresh(3, 1, 4).expand(3, 5, 4),
    "diagonal": lambda: fresh(7, 7).diagonal(),
    "unfold": lambda: fresh(12).unfold(0, 4, 2),
    "select": lambda: fresh(4, 5, 6).select(1, 2),
    "batch transpose": lambda: fresh(3, 4, 5).transpose(1, 2),
    "heads": lambda: fresh(2, 5, 3, 4).transpose(1, 2),
}
TYPES = [torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool, torch.complex64, torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]


def contiguous():
    for name, view in VIEWS.items():
        source = view()
        tell(name, "kernel", source.contiguous(), [source])
    for dtype in TYPES:
        source = fresh(6, 9, dtype=dtype).t()
        tell(f"transpose {dtype}", "kernel", source.contiguous(), [source])


def channels_last():
    for dtype in (torch.float32, torch.float16):
        nchw = fresh(2, 5, 4, 6, dtype=dtype)
        nhwc = nchw.contiguous(memory_format=torch.channels_last)
        tell(f"to channels_last {dtype}", "kernel", nhwc, [nchw])
        tell(f"from channels_last {dtype}", "kernel", nhwc.contiguous(), [nhwc])
    volume = fresh(2, 3, 4, 2, 5)
    tell("channels_last_3d", "kernel", volume.contiguous(memory_format=torch.channels_last_3d), [volume])


def into():
    """Both sides are strided; types differ or not."""
    for name, view in VIEWS.items():
        source = view()
        target = fresh(*reversed(source.shape)).permute(*reversed(range(source.dim())))
        if target.stride() != source.stride():  # else a plain copy of bytes
            tell(f"{name} into a transposed one", "kernel", target.copy_(source), [source])
        cast = fresh(*source.shape, dtype=torch.float16)
        tell(f"{name} into half", "kernel", cast.copy_(source), [source])
    whole = fresh(12, 20)
    part = fresh(6, 10)
    tell("into every other", "kernel", whole[::2, ::2].copy_(part), [part])


def casts():
    """Of tensors in one piece: one dimension, whatever theirs are."""
    for first in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        for second in TYPES:
            if first != second and not second.is_complex:
                source = fresh(7, 11, dtype=first)
                tell(f"{first} to {second}", "kernel", source.to(second), [source])
    odd = fresh(101, dtype=torch.float16)[1:]
    tell("misaligned", "kernel", odd.float(), [odd])
    transposed = fresh(6, 9).t()
    tell("cast of a transposed one", "kernel", transposed.half(), [transposed])
    strided = fresh(6, 10)[:, ::2]
    tell("cast to one piece", "kernel", strided.half(), [strided])


def plain():
    source = fresh(6, 9)
    tell("clone", "bytes", source.clone(), [source])
    transposed = fresh(6, 9).t()
    tell("clone of a transposed one", "bytes", transposed.clone(), [transposed])
    tell("clone to one piece", "kernel", transposed.clone(memory_format=torch.contiguous_format), [transposed])
    tiled = fresh(3, 4)
    kept.append(tiled.repeat(2, 2))


def cats():
    a, b = fresh(4, 6), fresh(4, 6)
    tell("cat rows", "cat", torch.cat([a, b]), [a, b])
    tell("cat columns", "cat", torch.cat([a, b], 1), [a, b])
    tell("cat odd columns", "cat", torch.cat([a, fresh(4, 3)], 1), [a, kept[-1]])
    tell("cat transposed", "cat", torch.cat([a.t(), b.t()], 1), [a.t(), b.t()])
    c, d = fresh(2, 3, 5, 7), fresh(2, 3, 5, 7)
    tell("cat middle", "cat", torch.cat([c, d], 2), [c, d])
    n = fresh(2, 4, 3, 3).contiguous(memory_format=torch.channels_last)
    kept.append(n)
    tell("cat channels_last", "cat", torch.cat([n, n], 1), [n, n])
    h = [fresh(4, 8, dtype=torch.float16) for _ in range(3)]
    tell("cat half", "cat", torch.cat(h, 1), h)
    many = [fresh(2, 5) for _ in range(12)]
    tell("cat many", "cat", torch.cat(many), many)
    tell("stack", "cat", torch.stack([c, d]).flatten(0, 1), [c, d])


def others():
    filled = fresh(5, 3).fill_(1)
    tell("fill", "argument", filled, [])
    first, second = fresh(5, 3), fresh(5, 3)
    tell("add", "argument", first + second, [first, second])


sys.stdout.reconfigure(line_buffering=True)
for part in (contiguous, channels_last, into, casts, plain, cats, others):
    part()
torch.cuda.synchronize()
