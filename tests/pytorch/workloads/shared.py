"""A CUDA tensor handed to a spawned process through a queue: CUDA IPC."""

import torch
import torch.multiprocessing as mp


def receive(tensors, results):
    tensor = tensors.get()
    shape = tuple(tensor.shape)
    tensor.mul_(2)
    torch.cuda.synchronize()
    del tensor
    results.put(shape)


def main():
    context = mp.get_context("spawn")
    tensors, results = context.Queue(), context.SimpleQueue()
    worker = context.Process(target=receive, args=(tensors, results))
    worker.start()
    sent = torch.ones(256, 256, device="cuda")
    tensors.put(sent)
    shape = results.get()
    worker.join()
    torch.cuda.synchronize()
    print(f"{shape} seen, exit {worker.exitcode}")


if __name__ == "__main__":
    main()
