"""DistributedDataParallel with one rank over NCCL, and the collectives people call by hand."""

import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("nccl", init_method=f"file://{folder}/store", rank=0, world_size=1,
                                timeout=timedelta(seconds=60))
        torch.cuda.set_device(0)
        model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).cuda(), [0])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            loss = model(torch.randn(16, 32).cuda()).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        total = torch.ones(1000, device="cuda")
        dist.all_reduce(total)
        dist.broadcast(total, 0)
        parts = [torch.empty_like(total)]
        dist.all_gather(parts, total)
        dist.all_reduce(total, async_op=True).wait()
        dist.barrier()
        torch.cuda.synchronize()
        dist.destroy_process_group()
    print(f"4 steps, {parts[0].numel()} gathered")


if __name__ == "__main__":
    main()
