"""An out-of-memory error while another thread is in the middle of a backward pass."""

import threading
import time

import torch

from listing import run_out, settle

inside, over = threading.Event(), threading.Event()


class Waits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        inside.set()
        while not over.is_set():
            time.sleep(0.001)
        return grad * 2


kept = torch.ones(1000, device="cuda", requires_grad=True)
loss = Waits.apply(kept * 3).sum()
thread = threading.Thread(target=loss.backward)
thread.start()
inside.wait()
run_out()
settle()
over.set()
thread.join()
print(kept.grad.shape)
