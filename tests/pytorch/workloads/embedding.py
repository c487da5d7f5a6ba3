"""Embedding tables looked up and trained, dense; a bag; a tied output layer."""

import torch
from torch import nn

table = nn.Embedding(1000, 32, padding_idx=0).cuda()
bag = nn.EmbeddingBag(500, 16, mode="sum").cuda()
out = nn.Linear(32, 1000, bias=False).cuda()
out.weight = table.weight
optimizer = torch.optim.SGD([*table.parameters(), *bag.parameters()], lr=0.1)
for _ in range(3):
    words = torch.randint(1, 1000, (4, 12)).cuda()
    bagged = bag(torch.randint(0, 500, (20,)).cuda(), torch.tensor([0, 5, 11]).cuda())
    loss = out(table(words)).mean() + bagged.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
torch.cuda.synchronize()
print(f"table {tuple(table.weight.grad.shape)}, bag {tuple(bag.weight.grad.shape)}")
