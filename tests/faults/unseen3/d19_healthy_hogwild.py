"""Healthy: Hogwild in one process, two threads train the same parameters without a lock while the main thread waits in join().

What happens: each thread has its own optimizer over the shared model and its own data; the main thread does nothing.  The
processor is busy with training all the time.
Who causes it: nobody.  What is lost: nothing (the main thread's waiting is the design).  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import threading
import time

import torch
from torch import nn

STEPS, BATCH = 320, 512


def train(number, model, teacher):
    generator = torch.Generator().manual_seed(number)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step in range(STEPS):
        x = torch.randn(BATCH, 64, generator=generator)
        loss = nn.functional.mse_loss(model(x), torch.tanh(x @ teacher))
        for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters()))):
            p.data.add_(g, alpha=-optimizer.param_groups[0]["lr"])
        if number == 0 and step % 50 == 0:
            print(f"thread 0 step {step} loss {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shared = nn.Sequential(nn.Linear(64, 640), nn.Tanh(), nn.Linear(640, 640), nn.Tanh(), nn.Linear(640, 640), nn.Tanh(), nn.Linear(640, 4))
    teacher = torch.randn(64, 4) / 8
    begin = time.perf_counter()
    threads = [threading.Thread(target=train, args=(i, shared, teacher)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    total = time.perf_counter() - begin
    print(f"REPORT rank=0 loop_s={total:.2f} steps={2 * STEPS} cpu_s={time.process_time():.2f}", flush=True)
    print("REPORT rank=0 lost_s=0 share=0.0", flush=True)
