"""Matrix products in half precision and bfloat16, plain, transposed, sliced and into a given output."""

import torch

shapes = []
for dtype in (torch.float16, torch.bfloat16):
    a = torch.randn(128, 64, device="cuda", dtype=dtype)
    b = torch.randn(64, 256, device="cuda").to(dtype)
    shapes.append((a @ b).shape)
    shapes.append((a @ a.t()).shape)
    shapes.append((a[:, ::2] @ b[::2]).shape)
    out = torch.empty(128, 256, device="cuda", dtype=dtype)
    torch.matmul(a, b, out=out)
    shapes.append(torch.addmm(out, a, b, beta=0.5).shape)
torch.cuda.synchronize()
print(" ".join("x".join(map(str, s)) for s in shapes))
