"""Four threads at once, each with a stream and a model of its own, forward and backward."""

import threading

import torch
from torch import nn

done, lock = [], threading.Lock()


def work(number):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)).cuda()
        for _ in range(5):
            loss = model(torch.randn(8, 32).cuda()).sum()
            loss.backward()
        stream.synchronize()
    with lock:
        done.append(number)


torch.cuda.init()
threads = [threading.Thread(target=work, args=(n,), name=f"worker {n}") for n in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"threads {sorted(done)}")
