"""A training of any number of ranks in which one rank keeps the others from going on. Usage: torchrun … job.py FAULT RANK STEP.

FAULT `healthy`: nothing does, but for what takes long by nature: a first step that compiles, validation, saves, of lengths that
PAUSES gives in seconds. HANG_SECONDS: the group's timeout.
"""

import ctypes
import datetime
import io
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

FAULT, WHO, WHEN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
SECONDS = float(os.environ.get("HANG_SECONDS", "20"))
COMPILE_S, VALIDATE_S, SAVE_S = (float(s) for s in os.environ.get("PAUSES", "0,0,0").split(","))
STEPS, EVERY = 60, 20
RANK = int(os.environ["RANK"])


def sleeps():
    time.sleep(10 * SECONDS)


def loops():
    until = time.monotonic() + 10 * SECONDS
    while time.monotonic() < until:
        pass


def holds_the_gil():
    lib = ctypes.PyDLL(None)
    lock = ctypes.create_string_buffer(64)
    lib.pthread_mutex_lock(lock)
    lib.pthread_mutex_lock(lock)  # a raw sleep would end at the first question for the stack (docs/hang.md)


def stops():
    os.kill(os.getpid(), signal.SIGSTOP)


def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)


def raises():
    raise ValueError("bad batch")


def calls_another():
    dist.broadcast(torch.ones(10), src=WHO)


def another_size():
    dist.all_reduce(torch.ones(77))


class Slow:
    def __init__(self, seconds):
        self.seconds = seconds

    def __reduce__(self):
        time.sleep(self.seconds)
        return (int, ())


def saves_long():
    torch.save({"slow": Slow(0.85 * SECONDS)}, io.BytesIO())


class First(nn.Module):
    """What takes long in its first forward, as something that compiles does."""

    def __init__(self):
        super().__init__()
        self.inner, self.waits_s = nn.Linear(256, 256), COMPILE_S

    def forward(self, x):
        time.sleep(self.waits_s)
        self.waits_s = 0.0
        return self.inner(x)


def batches():
    more = FAULT == "has_more_batches" and RANK == WHO
    less = FAULT == "has_fewer_batches" and RANK == WHO
    for i in range(WHEN + more - less if FAULT.startswith("has_") else STEPS):
        yield i, torch.randn(32, 256)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(RANK)
    if FAULT == "starts_late" and RANK == WHO:
        os.write(1, f"fault {time.time()}\n".encode())
        time.sleep(2 * SECONDS)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=SECONDS if FAULT != "starts_late" else 120))
    model = nn.parallel.DistributedDataParallel(nn.Sequential(First(), nn.ReLU(), nn.Linear(256, 8)))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    flags = torch.zeros(3)
    for step, x in batches():
        if FAULT == "skips_a_step" and RANK == WHO and step == WHEN:
            os.write(1, f"fault {time.time()}\n".encode())
            continue
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        time.sleep(0.02)
        if step == WHEN and RANK == WHO and FAULT in globals():
            os.write(1, f"fault {time.time()}\n".encode())
            globals()[FAULT]()
        if FAULT == "healthy" and step % EVERY == EVERY - 1:
            model.eval()
            with torch.no_grad():
                until = time.monotonic() + VALIDATE_S
                while time.monotonic() < until:
                    model.module(torch.randn(512, 256))
            model.train()
            if RANK == 0:
                torch.save({"model": model.state_dict(), "slow": Slow(SAVE_S)}, io.BytesIO())
            dist.barrier()
    if FAULT.startswith("has_"):
        if RANK == WHO:
            os.write(1, f"fault {time.time()}\n".encode())
        dist.all_reduce(flags)  # what follows the epoch
    print(f"TRUTH rank={RANK} loss={float(flags.sum()):.1f}", flush=True)
    dist.destroy_process_group()


main()
