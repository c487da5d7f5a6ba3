"""Side streams with record_stream: copies on one, work on another, blocks that wait for both."""

import torch

copying, working = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
host = torch.randn(1 << 16).pin_memory()
results = []
start.record()
for _ in range(8):
    with torch.cuda.stream(copying):
        batch = host.to("cuda", non_blocking=True)
    working.wait_stream(copying)
    with torch.cuda.stream(working):
        batch.record_stream(working)
        results.append((batch * 2).sum())
    del batch
torch.cuda.current_stream().wait_stream(working)
for result in results:
    result.record_stream(torch.cuda.current_stream())
end.record()
torch.cuda.synchronize()
print(f"{len(results)} results, {end.query()} {start.elapsed_time(end) >= 0} {torch.cuda.ExternalStream(working.cuda_stream).query()}")
