"""Programs whose layouts are right: nothing is to be told of them.

Usage: layout_controls.py MODE STEPS
"""

import sys

import torch
import torch.nn.functional as F
from torch import nn

MODE, STEPS = sys.argv[1], int(sys.argv[2])


def network():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1, bias=False), nn.BatchNorm2d(128), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(128, 100)).cuda()


class Training:
    def __init__(self, dtype, memory_format):
        self.net = network().to(dtype=dtype, memory_format=memory_format)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.x = torch.empty(32, 3, 64, 64, device="cuda", dtype=dtype).to(memory_format=memory_format)
        self.y = torch.zeros(32, device="cuda", dtype=torch.long)

    def __call__(self):
        self.optimizer.zero_grad()
        F.cross_entropy(self.net(self.x).float(), self.y).backward()
        self.optimizer.step()


def nchw():
    """Pure NCHW, fp32."""
    return Training(torch.float32, torch.contiguous_format)


def nhwc():
    """Pure NHWC, bf16."""
    return Training(torch.bfloat16, torch.channels_last)


def products():
    """Transposed products without copies: x @ x.t(), linear, bmm of a transposed batch."""
    x = torch.empty(2048, 2048, device="cuda")
    batch = torch.empty(16, 512, 64, device="cuda")
    linear = nn.Linear(2048, 2048).cuda()

    def step():
        with torch.no_grad():
            return x @ x.t(), x.t() @ x, linear(x), torch.bmm(batch, batch.transpose(1, 2))

    return step


def attention():
    """Heads that are views of one projection."""
    qkv = nn.Linear(512, 1536).cuda()
    x = torch.empty(8, 256, 512, device="cuda")

    def step():
        with torch.no_grad():
            q, k, v = qkv(x).view(8, 256, 3, 8, 64).permute(2, 0, 3, 1, 4).unbind(0)
            return F.scaled_dot_product_attention(q, k, v)

    return step


def tiny():
    """Copies that nobody notices: a strided gradient into its place in a bucket of 4 KiB."""
    bucket = torch.empty(1024, device="cuda")
    grad = torch.empty(32, 32, device="cuda").t()
    other = torch.empty(32, 32, device="cuda")

    def step():
        view = bucket.view(32, 32)
        view.copy_(grad)
        return view @ other, other.t().expand(4, 32, 32).contiguous()

    return step


step = globals()[MODE]()
for _ in range(STEPS):
    step()
torch.cuda.synchronize()
