"""import torch and the CPU alone: nothing to record."""

import torch

print(f"sum {torch.arange(10).sum().item()}")
