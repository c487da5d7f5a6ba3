"""Random numbers, the default generator and one of the user's."""

import torch

torch.cuda.manual_seed(7)
made = [torch.randn(256, 256, device="cuda") for _ in range(4)]
own = torch.Generator(device="cuda").manual_seed(3)
made.append(torch.rand(1000, generator=own, device="cuda"))
made.append(torch.empty(4096, device="cuda").normal_())
made.append(torch.randperm(20, device="cpu").to("cuda"))
made.append(torch.bernoulli(torch.full((128,), 0.5, device="cuda")))
torch.cuda.synchronize()
print(f"{len(made)} tensors, {sum(t.numel() for t in made)} numbers")
