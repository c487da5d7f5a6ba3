"""Threads that Python does not know, and threads that it meets in a callback only."""

import ctypes
import threading

from probe import cuda, probe

libc = ctypes.CDLL(None)
libc.pthread_create.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def run(function, count):
    threads = [ctypes.c_ulong() for _ in range(count)]
    for thread in threads:
        assert libc.pthread_create(ctypes.byref(thread), None, function, None) == 0
    for thread in threads:
        libc.pthread_join(thread, None)


@CALLBACK
def in_python(_):
    probe()
    (lambda: probe())()
    return None


free = ctypes.cast(cuda.cudaFree, ctypes.c_void_p)  # cudaFree(NULL) is a call, and succeeds
run(free, 8)
probe()
run(ctypes.cast(in_python, ctypes.c_void_p), 4)
run(free, 8)
for _ in range(20):  # states that come and go, at addresses that are used again
    thread = threading.Thread(target=probe)
    thread.start()
    thread.join()
    run(ctypes.cast(in_python, ctypes.c_void_p), 1)
print("done")
