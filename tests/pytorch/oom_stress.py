"""Out of memory again and again in one process, caught each time, with life in between.

Usage: oom_stress.py WAY REPEATS [FOLDER]
    forward   a request that is too large, in a module's forward
    backward  one inside a backward pass: autograd's thread asks
    thread    four threads of the program's own ask at the same time
    pin       the pin_memory thread of a DataLoader (the run makes cudaHostAlloc fail)
    retried   each is tried again with half the batch inside of the except block, until it fits
    rank      one of several processes, which begin together once FOLDER has a file of each
    fatal     the same, and nobody catches it
Each failure's type and text are printed once for each text that is new, without the pid; then the
failures, and by how many KiB the resident memory has grown since the first tenth.
"""

import collections
import os
import re
import sys
import threading
import time
from pathlib import Path

import torch
from torch import nn

TOO_MUCH = 4 << 30
LIMIT = 250  # s: nobody is left behind by a test that was interrupted
begun = time.monotonic()
seen = collections.Counter()


def note(error):
    # Frames that an exception keeps are the program's business: this one drops them.
    seen[type(error).__name__ + ": " + re.sub(r"\b[Pp]rocess \d+", "process PID", str(error))] += 1


def in_time():
    if time.monotonic() > begun + LIMIT:
        sys.exit("this takes too long")


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 10


class Greedy(nn.Module):
    def forward(self, x):
        return x + torch.empty(TOO_MUCH, dtype=torch.uint8, device="cuda")[: x.numel()]


class GreedyGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient + torch.empty(TOO_MUCH, dtype=torch.uint8, device="cuda")[: gradient.numel()]


def catch(work, *arguments):
    try:
        work(*arguments)
    except torch.OutOfMemoryError as error:
        note(error)
    else:
        sys.exit("there was memory")


def forward():
    catch(Greedy(), torch.ones(64, device="cuda"))


def backward():
    x = torch.ones(64, device="cuda", requires_grad=True)
    loss = GreedyGradient.apply(x * 3).sum()
    catch(loss.backward)


def thread():
    threads = [threading.Thread(target=forward) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


class Rows(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return torch.full((1 << 12,), float(index))


def pins(repeats):
    """A worker makes each batch, a thread of the loader's own pins it, and what it raises comes here."""
    batches = iter(torch.utils.data.DataLoader(Rows(repeats), pin_memory=True, num_workers=1))
    while True:
        try:
            next(batches)
        except StopIteration:
            return
        except RuntimeError as error:
            note(error)
            yield


def retried():
    batch, held = 64, []
    while True:
        try:
            held = [torch.empty(batch << 24, dtype=torch.uint8, device="cuda") for _ in range(3)]
            break
        except torch.OutOfMemoryError as error:
            note(error)
            batch //= 2
    del held


def meet(folder, number):
    """All ranks have begun this round."""
    rank, world = os.environ["RANK"], int(os.environ["WORLD_SIZE"])
    (Path(folder) / f"{number}.{rank}").touch()
    while len(list(Path(folder).glob(f"{number}.*"))) < world:
        in_time()
        time.sleep(0.001)


def rounds(way, repeats, folder):
    if way == "pin":
        yield from pins(repeats)
        return
    for number in range(repeats):
        if way in ("rank", "fatal"):
            meet(folder, number)
        if way == "fatal":
            Greedy()(torch.ones(64, device="cuda"))
        {f.__name__: f for f in (forward, backward, thread, retried)}.get(way, forward)()
        yield


def main(way, repeats, folder=None):
    model = nn.Linear(64, 64).cuda()
    after_first = done = 0
    for done, _ in enumerate(rounds(way, repeats, folder), 1):
        in_time()
        model(torch.ones(4, 64, device="cuda")).sum().backward()  # life goes on
        if done == max(1, repeats // 10):
            after_first = resident()
    for text in sorted(seen):
        print(text)
    print(f"rounds={done} failures={sum(seen.values())} grown_kib={resident() - after_first}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
