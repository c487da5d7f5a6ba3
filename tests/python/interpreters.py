"""Interpreters within the interpreter, each making calls, on the main thread and on others."""

import sys
import threading

from probe import probe

try:
    import _interpreters as them  # from 3.13 on
except ImportError:
    import _xxsubinterpreters as them

SCRIPT = """
import ctypes
cuda = ctypes.CDLL(None)
def call():
    pointer = ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(64)) == 0
    assert cuda.cudaFree(pointer) == 0
for _ in range(5):
    call()
"""


def create():
    if sys.version_info >= (3, 13):
        return them.create("legacy")  # ctypes is not for others
    return them.create(isolated=False)


def run():
    probe()
    one = create()
    failed = them.run_string(one, SCRIPT)
    assert not failed, failed
    probe()
    them.destroy(one)
    probe()


run()
run()
thread = threading.Thread(target=run)
thread.start()
thread.join()
print("done")
