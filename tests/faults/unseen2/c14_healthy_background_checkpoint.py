"""Healthy: rank 0 writes a checkpoint every 15 steps in a background thread, to a slow store.

What happens: rank 0 copies its state (a few ms), a thread serialises it and writes it in chunks to a store that takes
about a second per checkpoint, while training goes on; the thread sleeps in I/O and hardly ever holds the GIL.
Who causes it: nobody.  What is lost: one to three per cent at most.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import io
import os
import tempfile
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS, EVERY = 190, 15


class Saver:
    def __init__(self, folder, rate=6e6):
        self.folder, self.rate, self.thread, self.seconds, self.count = folder, rate, None, 0.0, 0
        self.background = 0.0

    def __call__(self, step, model, optimizer):
        t0 = time.perf_counter()
        if self.thread is not None:
            self.thread.join()
        state = {"step": step, "model": {k: v.clone() for k, v in model.state_dict().items()},
                 "momentum": [s["momentum_buffer"].clone() for s in optimizer.state.values()]}
        self.thread = threading.Thread(target=self._write, args=(step, state))
        self.thread.start()
        self.count += 1
        self.seconds += time.perf_counter() - t0

    def _write(self, step, state):
        t0 = time.perf_counter()
        buffer = io.BytesIO()
        torch.save(state, buffer)
        data = buffer.getbuffer()
        with open(os.path.join(self.folder, f"step{step}.pt"), "wb") as f:
            for begin in range(0, len(data), 1 << 20):
                piece = data[begin:begin + (1 << 20)]
                f.write(piece)
                time.sleep(len(piece) / self.rate)
        self.background += time.perf_counter() - t0


def conv(i, o, stride=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(conv(3, 24), conv(24, 48, 2), conv(48, 64, 2), conv(64, 96, 2), nn.Flatten(), nn.Linear(96 * 16, 384), nn.ReLU(),
                        nn.Linear(384, 10))
    model = DDP(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    save = Saver(tempfile.mkdtemp(prefix="ckpt_")) if rank == 0 else None
    torch.manual_seed(rank + 1)
    images, labels = torch.randn(640, 3, 32, 32), torch.randint(10, (640,))
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        pick = torch.randint(640, (48,))
        loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if save and step % EVERY == EVERY - 1:
            save(step, net, optimizer)
        if rank == 0 and step % 50 == 0:
            print(f"step {step}: {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    if save:
        save.thread.join()
        print(f"REPORT rank=0 lost_s={save.seconds:.2f} share={save.seconds / total:.3f} checkpoints={save.count} "
              f"background_s={save.background:.2f} (time in the training thread)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
