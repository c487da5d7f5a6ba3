"""An out-of-memory error, in one of several ways. argv[1]: uncaught, caught, retried, thread, backward, handled,
raised, silent."""

import sys
import threading

import torch

from listing import at, run_out, say, settle

weights = torch.empty(1 << 20, device="cuda")


class Backward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sum()

    @staticmethod
    def backward(ctx, grad):
        return torch.empty(1 << 40, dtype=torch.uint8, device="cuda")


def fail(x):
    activation = x * 2
    say(activation=at(activation))
    return torch.empty(1 << 40, dtype=torch.uint8, device="cuda"), activation


def step():
    return fail(torch.randn(1 << 20, device="cuda"))


def caught():
    try:
        step()
    except torch.cuda.OutOfMemoryError as error:
        kept = error  # its traceback holds the frames of the failed step
        settle()
        say(text=str(kept).split(".")[0], type=type(kept).__name__)


def main(how):
    say(weights=at(weights))
    if how == "caught":
        caught()
    elif how == "retried":
        for _ in range(20):
            caught()
    elif how == "thread":
        thread = threading.Thread(target=caught)
        thread.start()
        thread.join()
        settle()
    elif how == "backward":
        x = torch.randn(8, device="cuda", requires_grad=True)
        try:
            Backward.apply(x).backward()
        except torch.cuda.OutOfMemoryError as error:
            settle()
            say(type=type(error).__name__)
    elif how == "silent":
        run_out()
    else:
        step()


main(sys.argv[1])
