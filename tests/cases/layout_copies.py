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


class Sequence(nn.Module):
    """(batch, length, channels), transposed for a convolution that has no channels last."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(64, 64, 5, padding=2).cuda()

    def step(self):
        x = fresh(16, 1024, 64)
        report(x)
        with torch.no_grad():
            return self.conv(x.transpose(1, 2))  # SITE: sequence


class SequenceAsImage(Sequence):
    """The same as a convolution of images with a height of 1, which takes it as it lies."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 64, (1, 5), padding=(0, 2)).cuda().half().to(memory_format=torch.channels_last)

    def step(self):
        x = torch.empty(16, 1024, 64, device="cuda", dtype=torch.half).relu_()
        with torch.no_grad():
            return self.conv(x.transpose(1, 2).unsqueeze(2))


class Volumes(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv3d(16, 32, 3, padding=1).cuda().to(memory_format=torch.channels_last_3d)

    def step(self):
        with torch.no_grad():
            return self.conv(fresh(2, 16, 16, 64, 64))  # SITE: volumes


class Shuffled(nn.Module):
    """The copy is what pixel_shuffle does."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(32, 3, 3, padding=1).cuda()

    def step(self):
        x = fresh(8, 128, 64, 64)
        report(x)
        with torch.no_grad():
            return self.conv(F.pixel_shuffle(x, 2))  # SITE: shuffled


class TurnedBack(nn.Module):
    """A convolution's output is made channels first by name, for a kernel."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(64, 64, 3, padding=1).cuda().half().to(memory_format=torch.channels_last)
        self.x = fresh(16, 64, 64, 64).half().to(memory_format=torch.channels_last)

    def step(self):
        with torch.no_grad():
            y = self.conv(self.x)
            return y.contiguous().relu_()  # SITE: turned back


class Patches(nn.Module):
    """Patches of an image become the rows of one matrix."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(768, 768).cuda()

    def step(self):
        x = fresh(16, 3, 224, 224)
        report(x)
        patches = x.reshape(16, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(16, 196, 768)  # SITE: patches
        with torch.no_grad():
            return self.linear(patches)


class Adapter(nn.Module):
    """An adapter that is kept as a stepped view, multiplied transposed."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weight", fresh(2048, 4096)[:, ::2])

    def step(self):
        return fresh(512, 2048) @ self.weight.T  # SITE: adapter


class Needless(nn.Module):
    """A weight is made contiguous in each step, though cuBLAS would read it as it lies."""

    def __init__(self):
        super().__init__()
        self.weight = fresh(2048, 2048)

    def step(self):
        return fresh(512, 2048) @ self.weight.t().contiguous()  # SITE: needless


model = globals()[MODE]()
for _ in range(STEPS):
    model.step()
torch.cuda.synchronize()
