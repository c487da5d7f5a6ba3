"""Processes made in every way, each with calls of its own. The argument names the way."""

import multiprocessing
import os
import sys
import threading
import warnings

from probe import probe, unnoted, write_notes


def work(n=0):
    def inner():
        return probe()
    for _ in range(3):
        inner()
    write_notes()
    return n


def fork(then):
    pid = os.fork()
    if pid == 0:
        then()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def forked():
    probe()
    assert fork(work) == 0
    assert fork(lambda: (work(), fork(work), work())) == 0
    thread = threading.Thread(target=lambda: fork(work))  # from another thread than the main one
    thread.start()
    thread.join()
    # While another thread is making calls: what it was in the middle of is nobody's in the child.
    stop = threading.Event()
    busy = threading.Thread(target=lambda: [unnoted() for _ in iter(stop.is_set, True)])
    busy.start()
    for _ in range(5):
        assert fork(work) == 0
    stop.set()
    busy.join()
    probe()


def pool(method):
    probe()
    with multiprocessing.get_context(method).Pool(2) as workers:
        assert workers.map(work, range(4)) == list(range(4))
    probe()


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # 3.12 and later warn of forks beside other threads, with a pid
    if sys.argv[1] == "fork":
        forked()
    else:
        pool(sys.argv[1])
    print("done")
