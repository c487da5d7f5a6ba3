"""Recurrent nets through cuDNN, trained: LSTM with two layers both ways, GRU, and a cell by hand."""

import torch
from torch import nn

lstm = nn.LSTM(16, 32, num_layers=2, bidirectional=True, batch_first=True).cuda()
gru = nn.GRU(16, 32).cuda()
cell = nn.LSTMCell(16, 32).cuda()
x = torch.randn(4, 10, 16, device="cuda")
for _ in range(2):
    out, (h, c) = lstm(x)
    out.mean().backward()
    states, _ = gru(x.transpose(0, 1))
    states.mean().backward()
    hc = None
    for t in range(3):
        hc = cell(x[:, t], hc)
    hc[0].mean().backward()
torch.cuda.synchronize()
print(f"{tuple(out.shape)} {tuple(h.shape)} {tuple(states.shape)} {tuple(hc[0].shape)}")
