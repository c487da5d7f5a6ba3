"""The least that touches a device: import, init, and no tensor."""

import torch

torch.cuda.init()
print(f"{torch.cuda.device_count()} device, initialized {torch.cuda.is_initialized()}")
