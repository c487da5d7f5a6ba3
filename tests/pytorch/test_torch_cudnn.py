"""PyTorch's convolutions, norms, recurrent layers and attention by cuDNN: every operand that the simulated device
logged is in the trace, equal."""

from collections import Counter

from cudnn_truth import assert_operands

LAYERS = """
import torch, torch.nn as nn, torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
for layout in (torch.contiguous_format, torch.channels_last):
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, groups=2),
                        nn.MaxPool2d(2), nn.ConvTranspose2d(16, 8, 3)).cuda().to(memory_format=layout)
    images = torch.randn(4, 3, 32, 32, device="cuda").to(memory_format=layout)
    for _ in range(3):
        net(images).sum().backward()
lstm = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True).cuda()
lstm(torch.randn(4, 7, 8, device="cuda"))[0].sum().backward()
nn.Conv3d(2, 4, 3).cuda().half()(torch.randn(1, 2, 8, 8, 8, device="cuda", dtype=torch.half))
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    q = torch.randn(2, 4, 16, 64, device="cuda", dtype=torch.half, requires_grad=True)
    F.scaled_dot_product_attention(q, q, q).sum().backward()
torch.cuda.synchronize()
print("done")
"""


def test_every_operand(torch):
    outcome = torch.record([torch.python, "-c", LAYERS])
    assert (outcome.status, outcome.out) == (0, "done\n"), repr(outcome)
    trace = torch.trace()
    pairs = assert_operands(trace, torch.log)
    calls = Counter(call.name for _, call in pairs)
    assert calls["cudnnBackendExecute"] > 40
    assert {"cudnnRNNForward", "cudnnBatchNormalizationForwardTrainingEx"} <= calls.keys()
    layouts = {row["layout"] for row in trace.rows("SELECT layout FROM tensor_operand WHERE role = 'x'")}
    assert {"nchw", "nhwc"} <= layouts
