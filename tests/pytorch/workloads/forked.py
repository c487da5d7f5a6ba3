"""Forked workers: one that keeps off the device, one that tries it and is refused; the parent goes on."""

import torch
import torch.multiprocessing as mp


def on_cpu(results):
    results.put(("cpu", torch.ones(10).sum().item()))


def on_device(results):
    try:
        torch.ones(10, device="cuda")
        results.put(("device", "got it"))
    except RuntimeError as error:
        results.put(("device", "refused" if "forked" in str(error) else str(error)))


def main():
    context = mp.get_context("fork")
    results = context.SimpleQueue()
    before = torch.zeros(1000, device="cuda")
    for target in (on_cpu, on_device):
        worker = context.Process(target=target, args=(results,))
        worker.start()
        worker.join()
        before.add_(1)
    torch.cuda.synchronize()
    print(results.get(), results.get(), tuple(before.shape))


if __name__ == "__main__":
    main()
