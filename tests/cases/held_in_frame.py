"""A training loop in a function. argv[1]: losses (kept with their graphs), slices (of each step's output), sum
(of losses): until memory runs out, and the program with it; step: nothing is kept, but the last step is too
large; errors: three steps fail and are caught, and their exceptions are kept."""

import sys

import torch
from torch import nn

HOW, MIB = sys.argv[1], 1 << 20
errors = []
ROWS = 16384 if HOW == "slices" else 4096


def loss_of(model, rows):
    layers = [torch.randn(rows, 256, device="cuda")]
    for layer in model:
        layers.append(layer(layers[-1]))  # SITE: forward
    return layers[-1], layers[-1].square().mean()  # SITE: loss


def failing(model):
    out, loss = loss_of(model, ROWS)
    return out, loss, torch.empty(4096 * MIB, device="cuda")


def main():
    torch.cuda.mem_get_info()  # shares are of what the device has
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    kept, total = [], torch.zeros((), device="cuda")
    for i in range(20 if HOW in ("step", "errors") else 1000):
        if HOW == "errors" and i in (6, 9, 12):
            try:
                failing(model)
            except torch.cuda.OutOfMemoryError as error:
                errors.append(error)
            continue
        out, loss = loss_of(model, 400 * ROWS if HOW == "step" and i == 19 else ROWS)
        optimizer.zero_grad()
        loss.backward(retain_graph=HOW in ("losses", "sum"))
        optimizer.step()
        if HOW == "losses":
            kept.append(loss)
        elif HOW == "slices":
            kept.append(out.detach()[0])
        elif HOW == "sum":
            total = total + loss  # SITE: sum
        each = (ROWS - 1) * 256 if HOW == "slices" else ROWS * (2 * 1024 + 2 * 256)
        print(f"steps={i + 1} each={4 * each}", flush=True)


main()
