"""Two loops to measure: big matrix products, which the device holds up, and tiny kernels, which the
host does. As programs/loops.c, with PyTorch.

Reads lines "gemm N" and "tiny N"; answers each with the seconds that N of them took, the device's work
included.
"""

import sys
import time

import torch

SIZE = int(sys.argv[1]) if len(sys.argv) > 1 else 8192


def gemm(count, a, b, c):
    for _ in range(count):
        torch.mm(a, b, out=c)


def tiny(count, x):
    for _ in range(count):
        x.add_(1)


def main():
    torch.set_num_threads(1)
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    c, x = torch.empty_like(a), torch.zeros(256, device="cuda")
    for line in sys.stdin:
        what, count = line.split()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        if what == "gemm":
            gemm(int(count), a, b, c)
        else:
            tiny(int(count), x)
        torch.cuda.synchronize()
        print(f"{time.perf_counter() - begin:.6f}", flush=True)


main()
