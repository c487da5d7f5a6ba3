"""Runs operations, each after a code block of its own that makes its tensors, between the two ends of an
NVTX range that bears its number. Prints, per operation, what Python says of the result, and where the
block's tensors lie; what was copied and called is in the trace.

Usage: layout_facts.py OPERATIONS, a JSON file: [[code, operation], ...]
"""

import gc
import json
import sys
import warnings

import torch


def tensors_in(value, name):
    """Every tensor that a name leads to, with the words that lead there."""
    if isinstance(value, torch.Tensor):
        yield name, value
        if value.is_leaf and value.grad is not None:
            yield f"{name}.grad", value.grad
    elif isinstance(value, torch.nn.Module):
        for part, tensor in [*value.named_parameters(), *value.named_buffers()]:
            yield from tensors_in(tensor, f"{name}.{part}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from tensors_in(item, f"{name}[{index}]")


def storage(tensor):
    memory = tensor.untyped_storage()
    return {"begin": memory.data_ptr(), "end": memory.data_ptr() + memory.nbytes()}


def result_of(tensor):
    return {"strides": list(tensor.stride()), "contiguous": tensor.is_contiguous(),
            "channels_last": tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last),
            "device": tensor.device.type, **storage(tensor)}


def names_of(space):
    """Every tensor of a code block, and the storage it lies in."""
    return [{"name": words, **storage(tensor)} for name, value in space.items()
            for words, tensor in tensors_in(value, name)]


def compiled(operation):
    try:
        return compile(operation, "operation", "eval")
    except SyntaxError:
        return compile(operation, "operation", "exec")


def run(number, code, operation):
    space = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    exec(code, space)
    names = names_of(space)
    work = compiled(operation)
    result = error = None
    torch.cuda.synchronize()
    with torch.cuda.nvtx.range(str(number)):
        try:
            result = eval(work, space)
        except RuntimeError as failed:
            error = str(failed)
    torch.cuda.synchronize()
    print(json.dumps({"number": number, "operation": operation, "names": names, "error": error,
                      "results": [result_of(tensor) for _, tensor in tensors_in(result, "result")]}))


sys.stdout.reconfigure(line_buffering=True)
warnings.simplefilter("ignore")
with open(sys.argv[1]) as file:
    operations = json.load(file)
for number, (code, operation) in enumerate(operations):
    run(number, code, operation)
    gc.collect()
    torch.cuda.empty_cache()  # what the next one gives back is its own
