"""A user's script: blocks of sizes that are each made at one place only (test_torch_sites.py), all kept."""

import asyncio
import threading

import torch
import user_ops
from fakellm import Engine
from torch import nn

kept = []


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(300, 500), nn.ReLU())

    def forward(self, x):
        hidden = self.inner(x)  # SITE: app forward
        return hidden.sum(1)  # SITE: app sum


def direct():
    kept.append(torch.zeros(110000, dtype=torch.uint8, device="cuda"))  # SITE: app direct


def by_ops():
    kept.append(user_ops.make(120000))
    kept.append(user_ops.wrapped(130000))
    kept.extend(user_ops.generate([140000, 140000]))


def anonymous():
    make = lambda size: torch.zeros(size, dtype=torch.uint8, device="cuda")  # noqa: E731  # SITE: app lambda
    kept.append(make(150000))
    kept.extend([torch.zeros(160000, dtype=torch.uint8, device="cuda") for _ in range(2)])  # SITE: app comprehension


async def coroutine():
    await asyncio.sleep(0)
    kept.append(torch.zeros(170000, dtype=torch.uint8, device="cuda"))  # SITE: app coroutine


def by_package():
    engine = Engine([180000])  # SITE: app engine
    engine.in_thread(185000)
    kept.append(engine)


def in_thread():
    kept.append(torch.zeros(190000, dtype=torch.uint8, device="cuda"))  # SITE: app thread


def train():
    model = Net().cuda()  # SITE: app model
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        x = torch.randn(20, 300, device="cuda", requires_grad=True)  # SITE: app input
        y = user_ops.Square.apply(model(x)).mean()  # SITE: app square
        y.backward()  # SITE: app call backward
        optimizer.step()  # SITE: app optimizer
        optimizer.zero_grad()


def copied():
    kept.append(torch.zeros(400, 150, device="cuda").t().contiguous())  # SITE: app contiguous


def main():
    direct()
    copied()
    by_ops()
    anonymous()
    asyncio.run(coroutine())
    by_package()
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    train()
    torch.cuda.synchronize()
    print(f"{len(kept)} kept")


if __name__ == "__main__":
    main()
