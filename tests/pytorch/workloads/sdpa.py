"""Scaled dot product attention on each of its paths."""

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ran = []
for dtype in (torch.float32, torch.float16):
    q, k, v = (torch.randn(2, 4, 64, 32, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3))
    for backend in (SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION):
        if backend == SDPBackend.FLASH_ATTENTION and dtype == torch.float32:
            continue
        with sdpa_kernel(backend):
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out.sum().backward()
        ran.append(backend.name.split("_")[0].lower())
odd = torch.randn(2, 64, 32, 4, device="cuda").permute(0, 3, 1, 2)
ran.append("x".join(map(str, F.scaled_dot_product_attention(odd, odd, odd).shape)))
torch.cuda.synchronize()
print(" ".join(ran))
