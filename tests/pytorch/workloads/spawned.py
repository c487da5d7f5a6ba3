"""Two spawned workers that train, and a parent that does too."""

import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank, results):
    model = nn.Linear(16, 16).cuda()
    for _ in range(3 + rank):
        model(torch.randn(4, 16).cuda()).sum().backward()
    torch.cuda.synchronize()
    results.put((rank, 3 + rank))


def main():
    context = mp.get_context("spawn")
    results = context.SimpleQueue()
    workers = [context.Process(target=train, args=(rank, results)) for rank in range(2)]
    for worker in workers:
        worker.start()
    train(2, results)
    for worker in workers:
        worker.join()
    print(sorted(results.get() for _ in range(3)), [worker.exitcode for worker in workers])


if __name__ == "__main__":
    main()
