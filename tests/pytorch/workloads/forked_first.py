"""Workers forked before anybody has touched the device: each may use it, the parent too."""

import os

import torch


def work(steps):
    a = torch.randn(64, 64, device="cuda")
    for _ in range(steps):
        a = a @ a
    torch.cuda.synchronize()
    return tuple(a.shape)


children = []
for steps in (2, 5):
    pid = os.fork()
    if pid == 0:
        work(steps)
        os._exit(steps)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
print(f"children {codes}, parent {work(3)}")
