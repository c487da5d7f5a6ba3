"""Ends of memory that have another reason each, and some that are none: MODE is one of the functions."""

import ctypes
import sys

import torch

MIB = 1 << 20


def take(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def refused(mib):
    try:
        take(mib)  # SITE: ends asked
    except torch.OutOfMemoryError:
        return 1
    return 0


def large():
    """More than the device has."""
    return refused(8 << 10)


def full():
    """Live memory fills the device."""
    held = [take(300) for _ in range(6)]  # noqa: F841  # SITE: ends held
    return refused(300)


def backward():
    """The forward pass had room; its backward needs as much again."""
    held = [take(300) for _ in range(4)]  # noqa: F841
    x = torch.empty(75 * MIB, device="cuda", requires_grad=True)
    y = torch.sin(x)  # SITE: ends sine
    try:
        y.sum().backward()
    except torch.OutOfMemoryError:
        return 1
    return 0


def caught():
    """The first step of a loop is too large; it is tried with less, and the loop goes on."""
    rows, done = 400, 0
    while done < 12:
        try:
            layers = torch.zeros(rows, MIB, device="cuda")  # SITE: ends batch
            layers += 1
            del layers
            done += 1
        except torch.OutOfMemoryError:
            rows //= 2
    return rows


def limit():
    """A fraction that the program set for itself."""
    torch.cuda.set_per_process_memory_fraction(0.25)
    return refused(600)


def stream():
    """A hole that fits lies in the pool of another stream."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        whole = take(1400)
        del whole
        pin = take(50)
        pin[:1024].zero_()
    return refused(900)


def graph():
    """A hole that fits lies in the private pool of a graph."""
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        scratch = take(1400)
        scratch[:1024].zero_()
        del scratch
        out = take(30)
        out[:1024].zero_()
    return refused(900)


def beside():
    """Somebody asks the runtime itself, beside the allocator, which holds a cache."""
    cached = take(1500)
    del cached
    runtime = ctypes.CDLL(None)
    pointer = ctypes.c_void_p()
    return int(runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1000 * MIB)) == 2)


def fill():
    """Takes what there is, on purpose, keeps it, and works with it."""
    pool = []
    fill_pool(pool)
    del pool[:2]
    for _ in range(20):
        scratch = take(100)
        scratch[:1024].zero_()
    return 1


def fill_pool(pool):
    try:
        while True:
            pool.append(take(200))
    except torch.OutOfMemoryError:
        return


def saved():
    """The exception is kept in a list; the same line tries again."""
    errors, worked = [], 0
    for mib in (400, 200, 100):
        try:
            attempt(mib)  # SITE: ends attempt
            worked = 1
        except torch.OutOfMemoryError as error:
            errors.append(error)
    return len(errors) * 10 + worked


def attempt(mib):
    layers = []
    for _ in range(6):
        layers.append(take(mib))  # SITE: ends layer
    return len(layers)


def halves():
    """A search for the batch that fits: each failed attempt is given back."""
    for mib in (800, 600, 400, 200):
        try:
            return attempt(mib)
        except torch.OutOfMemoryError:
            pass
    return 0


def alternating():
    """Live memory fills the device, then segments that are half in use: two causes, one line."""
    failed = 0
    for _ in range(8):
        full = [take(100) for _ in range(19)]
        failed += refused(300)
        full.clear()
        full = [take(60) for _ in range(19)]  # 40 MiB free in each, 760 in all
        failed += refused(250)
        full.clear()
    return failed


def training():
    """Late in a loop one step is too large; it is left out, and the loop goes on."""
    weight = torch.nn.Parameter(torch.empty(16, MIB, device="cuda"))
    optimizer = torch.optim.Adam([weight])
    skipped = 0
    for turn in range(24):
        try:
            training_step(weight, optimizer, 400 if turn == 15 else 4)
        except torch.OutOfMemoryError:
            skipped += 1
            optimizer.zero_grad()
    return skipped


def training_step(weight, optimizer, rows):
    loss = (weight * torch.empty(rows, 1, MIB, device="cuda")).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def prefetch():
    """Batches that a slow stream still uses: each request waits for it, and then has room."""
    side = torch.cuda.Stream()
    for _ in range(12):
        batch = take(400)
        with torch.cuda.stream(side):
            batch[:1024].add_(1)
        batch.record_stream(side)
        del batch  # SITE: ends dropped
    return 1


print(f"result={globals()[sys.argv[1]]()}")
