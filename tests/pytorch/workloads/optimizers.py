"""Optimizers in their forms: for-loop, foreach, fused, capturable; with state saved and loaded."""

import copy

import torch
from torch import nn

start = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)).cuda()
x = torch.randn(8, 32, device="cuda")
ran = []
for kind, settings in ((torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": False}),
                       (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "fused": True}),
                       (torch.optim.Adam, {"foreach": True}),
                       (torch.optim.AdamW, {"fused": True}),
                       (torch.optim.Adam, {"capturable": True, "foreach": True}),
                       (torch.optim.RMSprop, {"foreach": True})):
    model = copy.deepcopy(start)
    optimizer = kind(model.parameters(), **settings)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        model(x).square().mean().backward()
        optimizer.step()
    again = kind(model.parameters(), **settings)
    again.load_state_dict(optimizer.state_dict())
    ran.append(kind.__name__)
torch.cuda.synchronize()
print(" ".join(ran))
