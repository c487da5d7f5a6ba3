"""A recurrent net over sequences of ever other length.

Usage: c03_sequences.py STEPS [falling | random | steady | buckets]
  falling  each step's sequences are shorter than the last one's
  random   lengths as they come
  steady   all of one length
  buckets  lengths rounded up to powers of two
Prints the lengths of the first and the last step, and what one element of a sequence takes.
"""

import random
import sys

import torch

STEPS, MODE = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "falling"
BATCH, HIDDEN = 64, 1024
chance = random.Random(3)


def length(step):
    if MODE == "steady":
        return 64
    wanted = chance.randrange(100, 300) if MODE == "random" else 40 + 8 * (STEPS - step)
    return 1 << (wanted - 1).bit_length() if MODE == "buckets" else wanted


weights = torch.ones(HIDDEN, device="cuda")
for step in range(STEPS):
    inputs = torch.zeros(length(step), BATCH, HIDDEN, device="cuda")  # SITE: c03 inputs
    hidden = inputs * weights  # SITE: c03 hidden
    gates = torch.tanh(hidden)  # SITE: c03 gates
    out = gates.sum()
    del inputs, hidden, gates, out
print(f"last={length(STEPS - 1)} first={length(0)} row_bytes={BATCH * HIDDEN * 4}")
