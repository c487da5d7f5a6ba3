"""Convolutions of all sorts, forward and backward: 1d, 2d, 3d, grouped, dilated, transposed."""

import torch
from torch import nn

torch.backends.cudnn.benchmark = False
layers = [
    (nn.Conv1d(4, 8, 3, padding=1), (2, 4, 64)),
    (nn.Conv2d(3, 16, 3, stride=2, padding=1), (2, 3, 32, 32)),
    (nn.Conv2d(16, 16, 3, groups=16), (2, 16, 16, 16)),
    (nn.Conv2d(8, 8, 3, dilation=2, bias=False), (2, 8, 16, 16)),
    (nn.Conv3d(2, 4, 3), (1, 2, 8, 8, 8)),
    (nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1), (2, 8, 8, 8)),
]
shapes = []
for layer, shape in layers:
    layer.cuda()
    x = torch.randn(shape, device="cuda", requires_grad=True)
    for _ in range(2):
        y = layer(x)
        y.mean().backward()
    shapes.append("x".join(map(str, y.shape)))
torch.cuda.synchronize()
print(" ".join(shapes))
