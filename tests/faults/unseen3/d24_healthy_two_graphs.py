"""Healthy: torch.compile makes two graphs, one for full batches and one for the short last batch of each epoch.

What happens: the first step and the last step of the first epoch compile; all others use one of the two graphs.  One process.
Who causes it: nobody.  What is lost: two compilations, a few seconds once.  Right advice: leave it alone (drop_last at most).
REPORT_FAULT has no effect.
"""
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, ROWS, BATCH = 14, 7900, 256

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(ROWS, 64)
    y = (x[:, :8] * x[:, 8:16]).argmax(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=BATCH, shuffle=True)
    net = nn.Sequential(nn.Linear(64, 640), nn.GELU(), nn.Linear(640, 640), nn.GELU(), nn.Linear(640, 640), nn.GELU(), nn.Linear(640, 8))
    compiled = torch.compile(net, dynamic=False, backend="aot_eager")
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4)
    begin, step = time.perf_counter(), 0
    for epoch in range(EPOCHS):
        for a, b in loader:
            loss = nn.functional.cross_entropy(compiled(a), b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 50 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.3f}", flush=True)
            step += 1
    total = time.perf_counter() - begin
    print(f"REPORT rank=0 loop_s={total:.2f} steps={step} cpu_s={time.thread_time():.2f}", flush=True)
    print("REPORT rank=0 lost_s=0 share=0.0", flush=True)
