"""What the scripts of this folder share: a CUDA call whose Python stack is known.

Each call of probe() asks for another number of bytes, which the trace has too, and notes the stack
that traceback.extract_stack() sees on that very line. The notes go to the file that PROBE_NOTES
names, one JSON object a line: {"pid", "size", "stack": [[file, line, function], ...]}, innermost
first. A process that leaves by os._exit calls write_notes() first. Nothing here is newer than
Python 3.9.
"""

import atexit
import ctypes
import itertools
import json
import os
import sys
import threading
import traceback

# By the global scope, as a program's own calls go: dlsym on a library's handle passes beside us.
cuda = ctypes.CDLL(None)
cuda.cudaMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
cuda.cudaFree.argtypes = [ctypes.c_void_p]

FIRST_SIZE = 4096
_sizes = itertools.count(FIRST_SIZE)
_where = threading.local()
notes = []
os.register_at_fork(after_in_child=notes.clear)


def address():
    """Where cudaMalloc may write, per thread."""
    if not hasattr(_where, "pointer"):
        _where.pointer = ctypes.c_void_p()
    return ctypes.byref(_where.pointer)


def note(size, frame):
    stack = [[f.filename, f.lineno, f.name] for f in traceback.extract_stack(frame)]
    notes.append({"pid": os.getpid(), "size": size, "stack": stack[::-1]})


def probe(*_unused):
    """One recorded call; returns 0. The call and the note must stay on one line."""
    size, at = next(_sizes), address()
    cuda.cudaMalloc(at, size); note(size, sys._getframe())
    cuda.cudaFree(_where.pointer)
    return 0


def unnoted(size=64):
    """A recorded call that is not compared: where no note can be taken any more."""
    pointer = ctypes.c_void_p()
    cuda.cudaMalloc(ctypes.byref(pointer), size)
    cuda.cudaFree(pointer)


def write_notes():
    lines = "".join(json.dumps(found) + "\n" for found in notes)
    with open(os.environ["PROBE_NOTES"], "a") as out:
        out.write(lines)  # one write: other processes append, too
    notes.clear()


atexit.register(write_notes)
