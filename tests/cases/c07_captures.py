"""CUDA graphs of one product, captured again and again: each on a stream of its own, or all on one.

Usage: c07_captures.py fresh | one. Prints the bytes that the captures left allocated, and how many
there were.
"""

import sys

import torch
from torch import nn

CAPTURES, SIZE = 12, 256


def capture(layer, batch, stream):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):  # SITE: capture
        layer(batch)  # SITE: product
    for _ in range(3):
        graph.replay()
    return graph


def main(way):
    layer = nn.Linear(SIZE, SIZE, bias=False).cuda().requires_grad_(False)
    batch = torch.ones(SIZE, SIZE, device="cuda")
    layer(batch)
    torch.cuda.synchronize()
    only = torch.cuda.Stream()
    before = torch.cuda.memory_allocated()
    kept = [capture(layer, batch, only if way == "one" else torch.cuda.Stream()) for _ in range(CAPTURES)]
    torch.cuda.synchronize()
    left = torch.cuda.memory_allocated() - before
    print(f"bytes={left} captures={len(kept)}")


main(sys.argv[1])
