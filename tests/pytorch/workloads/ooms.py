"""Out of memory in PyTorch, in the way that the argument names. To be run with 1 GiB."""

import os
import signal
import sys
import threading

import torch

MIB = 1 << 20


def empty(mib, **how):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda", **how)


def asked(mib):
    """What came of it, in words; the memory stays with whoever keeps the answer."""
    try:
        return "got it", empty(mib)
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}", None


def plain():
    held = [empty(100) for _ in range(6)]
    free = empty(60)
    del free
    print(asked(700)[0])
    print(len(held))


def stall():
    held = [empty(100) for _ in range(8)]
    del held[::2]
    answer, memory = asked(600)
    print(answer, len(held))


def limited():
    torch.cuda.set_per_process_memory_fraction(0.5)
    held = [empty(100) for _ in range(4)]
    del held[2:]
    print(asked(400)[0])
    print(asked(100)[0])


def pending():
    """A block that waits for another stream is waited for, and given back."""
    torch.zeros(4, device="cuda").add_(1)  # loads what the addition needs
    held, block, stream = empty(300), empty(400), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        block.add_(1)
    block.record_stream(stream)
    del block
    answer, memory = asked(500)
    print(answer, held.numel())


def fitting():
    """It lies in a segment that cannot be given back, and fits; the driver has less."""
    torch.zeros(4, device="cuda").add_(1)
    held, whole = empty(500), empty(400)
    del whole
    block, neighbour, stream = empty(300), empty(80), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        block.add_(1)
    block.record_stream(stream)
    del block
    print(asked(300)[0], held.numel(), neighbour.numel())


def threads():
    """Four at once, each with its own cached memory to give back first."""
    answers, start = [], threading.Barrier(4)

    def work():
        for _ in range(3):
            start.wait()
            answers.append(asked(2000)[0])

    held = empty(400)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(sorted(answers)[0], len(answers), len(set(answers)), held.numel())


def backward():
    x = torch.zeros(64 * MIB, device="cuda", requires_grad=True)  # 256 MiB, and a gradient of as much
    y = (x * 2).sum()  # SITE: forward
    held = empty(700)  # in place of the product, which is gone by now
    try:
        y.backward()
    except torch.OutOfMemoryError as error:
        print(error, held.numel())


def uncaught():
    held = [empty(100) for _ in range(6)]
    empty(700 + len(held))


def killed():
    held = [empty(100) for _ in range(6)]
    asked(700 + len(held))
    os.kill(os.getpid(), signal.SIGKILL)


globals()[sys.argv[1]]()
