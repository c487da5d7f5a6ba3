"""Work on four streams in turn under a limit for the process: with garbage_collection_threshold the
allocator gives back what it has cached for the others whenever it comes near. Prints the rounds."""

import torch

ROUNDS, BYTES = 10, 200 << 20

torch.cuda.set_per_process_memory_fraction(0.5)
streams = [torch.cuda.Stream() for _ in range(4)]


def work(stream):
    with torch.cuda.stream(stream):
        torch.empty(BYTES, dtype=torch.uint8, device="cuda").zero_()  # SITE: requested


for _ in range(ROUNDS):
    for stream in streams:
        work(stream)
torch.cuda.synchronize()
print(f"rounds={ROUNDS}")
