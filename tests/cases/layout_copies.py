"""Copies that change a layout, each kind by a line of its own.

Usage: layout_copies.py MODE STEPS
Prints the bytes that one copy of it writes.
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

MODE, STEPS = sys.argv[1], int(sys.argv[2])


def fresh(*sizes):
    """An activation: made anew each time, by a kernel."""
    return torch.empty(sizes, device="cuda").relu_()


def report(tensor):
    if not hasattr(report, "done"):
        report.done = True
        print(f"copy_bytes={tensor.numel() * tensor.element_size()}")


class InputConverted(nn.Module):
    """The weight is channels_last, the input is not."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 3, padding=1).cuda().to(memory_format=torch.channels_last)

    def step(self):
        x = fresh(16, 64, 64, 64)
        report(x)
        with torch.no_grad():
            return self.conv(x)  # SITE: input converted


class WeightConverted(nn.Module):
    """The input is channels_last, the weight is not."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1024, 1024, 3, padding=1).cuda()
        self.x = fresh(2, 1024, 16, 16).to(memory_format=torch.channels_last)

    def step(self):
        report(self.conv.weight)
        with torch.no_grad():
            return self.conv(self.x)  # SITE: weight converted


class Trained(WeightConverted):
    """The same with an optimizer, which writes the weight in each step."""

    def __init__(self):
        super().__init__()
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)

    def step(self):
        report(self.conv.weight)
        self.optimizer.zero_grad()
        self.conv(self.x).sum().backward()  # SITE: trained weight
        self.optimizer.step()


class Gram(nn.Module):
    def step(self):
        x = fresh(2048, 2048)
        report(x)
        return x @ x.t()  # SITE: gram


class Stepped(nn.Module):
    def __init__(self):
        super().__init__()
        self.z = fresh(2048, 512)

    def step(self):
        y = fresh(2048, 4096)
        report(y[:, ::2])
        return y[:, ::2] @ self.z  # SITE: stepped


class Permuted(nn.Module):
    def step(self):
        q, k = fresh(8, 512, 16, 64), fresh(8, 512, 16, 64)
        report(q)
        return torch.matmul(q.transpose(1, 2), k.permute(0, 2, 3, 1))  # SITE: permuted


class AskedFor(nn.Module):
    """cuBLAS would read the transposed matrix as it lies."""

    def __init__(self):
        super().__init__()
        self.y = fresh(2048, 512)

    def step(self):
        x = fresh(2048, 2048)
        report(x)
        x = x.t().contiguous()  # SITE: asked for
        return x @ self.y


class Kept(nn.Module):
    """Made contiguous once: what should be done."""

    def __init__(self):
        super().__init__()
        weight = fresh(2048, 2048)[:, ::2].contiguous()
        self.register_buffer("weight", weight)

    def step(self):
        return fresh(512, 2048) @ self.weight


class Merged(nn.Module):
    """A merged weight that was kept as a stepped view of a larger one."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", fresh(2048, 4096)[:, ::2])

    def step(self):
        report(self.weight)
        return fresh(512, 2048) @ self.weight  # SITE: merged


class Refilled(nn.Module):
    """The batch is put into one buffer that stays, in an order that the product cannot read."""

    def __init__(self):
        super().__init__()
        self.batch = torch.empty(2048, 4096).pin_memory()
        self.buffer = fresh(2048, 4096)
        self.z = fresh(2048, 512)

    def step(self):
        self.buffer.copy_(self.batch, non_blocking=True)
        report(self.buffer[:, ::2])
        return self.buffer[:, ::2] @ self.z  # SITE: refilled


class ThereAndBack(nn.Module):
    def step(self):
        x = fresh(16, 64, 64, 64)
        report(x)
        y = x.contiguous(memory_format=torch.channels_last)  # SITE: there
        return y.contiguous().sum()  # SITE: and back


class UsedBetween(nn.Module):
    """Back again, but a convolution read what lay between."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 8, 1).cuda().to(memory_format=torch.channels_last)

    def step(self):
        x = fresh(16, 64, 64, 64)
        report(x)
        y = x.contiguous(memory_format=torch.channels_last)  # SITE: used between
        with torch.no_grad():
            z = self.conv(y)
        return z, y.contiguous()


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048)).cuda()

    def step(self):
        with torch.autocast("cuda", dtype=torch.float16), torch.no_grad():
            return self.net(fresh(4096, 2048))


class Bias(nn.Module):
    """An expanded bias is what the result begins with."""

    def __init__(self):
        super().__init__()
        self.bias = fresh(1, 2048)
        self.weight = fresh(512, 2048)

    def step(self):
        return torch.addmm(self.bias, fresh(2048, 512), self.weight, beta=0.5)


class Repeated(nn.Module):
    """Expanded and written out, for nobody but a kernel."""

    def __init__(self):
        super().__init__()
        self.mask = fresh(1, 1, 1024, 1024)

    def step(self):
        mask = self.mask.expand(4, 8, 1024, 1024).contiguous()  # SITE: repeated
        report(mask)
        return mask.add_(1)


model = globals()[MODE]()
for _ in range(STEPS):
    model.step()
torch.cuda.synchronize()
