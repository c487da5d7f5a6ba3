"""An interpreter on its way out, with CUDA calls in everything that still runs: atexit callbacks,
threads that nobody waits for, objects that are released when their modules are taken apart."""

import atexit
import sys
import threading

from probe import notes, probe, unnoted


class Held:
    def __init__(self, call=unnoted):
        self.call = call

    def __del__(self):
        self.call()


def last_words():
    probe()
    return len(notes)


def for_ever():
    while True:
        unnoted()


held = Held()
in_a_cycle = Held()
in_a_cycle.itself = in_a_cycle
Held.of_the_class = Held()
atexit.register(last_words)
probe()
for _ in range(4):
    threading.Thread(target=for_ever, daemon=True).start()
threading.Thread(target=lambda: [probe() for _ in range(5)]).start()
sys.exit(7)
