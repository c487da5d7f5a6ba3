"""Batched products: bmm, baddbmm, broadcasting matmul, einsum."""

import torch

a = torch.randn(8, 32, 64, device="cuda", requires_grad=True)
b = torch.randn(8, 64, 16, device="cuda")
c = torch.bmm(a, b)
d = torch.baddbmm(c, a, b)
e = torch.matmul(a, b[0])
f = torch.einsum("bij,bjk->bik", a, b)
g = a.permute(1, 0, 2) @ b[:, :, :8].permute(0, 1, 2)[0]
(c.sum() + d.sum() + e.sum() + f.sum()).backward()
torch.cuda.synchronize()
print(f"{tuple(c.shape)} {tuple(d.shape)} {tuple(e.shape)} {tuple(f.shape)} {tuple(g.shape)} {tuple(a.grad.shape)}")
