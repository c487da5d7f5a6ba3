"""CUDA graphs: a whole training step captured and replayed, and one module made graphed callables."""

import warnings

import torch
from torch import nn

warnings.filterwarnings("ignore", "The AccumulateGrad node's stream")

model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, target = torch.randn(16, 32, device="cuda"), torch.randn(16, 4, device="cuda")


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = nn.functional.mse_loss(model(x), target)
    loss.backward()
    optimizer.step()
    return loss


side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(10):
    x.copy_(torch.randn(16, 32))
    graph.replay()
second = torch.cuda.CUDAGraph()
with torch.cuda.graph(second, pool=graph.pool()):
    doubled = model(x) * 2
second.replay()

graphed = torch.cuda.make_graphed_callables(nn.Linear(32, 8).cuda(), (torch.randn(16, 32, device="cuda"),))
for _ in range(3):
    graphed(x).sum().backward()
torch.cuda.synchronize()
graph.reset()
print(f"replayed, loss {tuple(loss.shape)}, doubled {tuple(doubled.shape)}")
