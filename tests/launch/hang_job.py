"""A training of two ranks in which rank 1 does something after step 12. Usage: torchrun … hang_job.py FAULT."""

import ctypes
import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import stepscope

FAULT = sys.argv[1]
SECONDS = float(os.environ.get("HANG_SECONDS", "60"))
RANK = int(os.environ["RANK"])


def sleeps():
    time.sleep(5 * SECONDS)


def loops():
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        pass


def waits_for_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def holds_the_gil():
    lib = ctypes.PyDLL(None)
    lock = ctypes.create_string_buffer(64)
    lib.pthread_mutex_lock(lock)
    lib.pthread_mutex_lock(lock)


def stops():
    os.kill(os.getpid(), signal.SIGSTOP)


def calls_another():
    dist.broadcast(torch.ones(10), src=1)


def leaves():
    time.sleep(0.2)  # the loop is over for this rank
    dist.barrier()


def raises():
    threading.Thread(target=time.sleep, args=(SECONDS,)).start()  # keeps the process there
    raise ValueError("bad batch")


def exits():
    sys.exit(1)


def exits_in_order():
    sys.exit(0)


def exits_hard():
    os._exit(3)


def fails():
    raise ValueError("bad batch")


def reads():
    input()


def validates():
    with torch.no_grad(), stepscope.trace_phase("validation"):
        time.sleep(7)


def saves(seconds=7):
    class Slow:
        def __reduce__(self):
            time.sleep(seconds)
            return (int, ())

    torch.save({"model": model.state_dict(), "slow": Slow()}, os.devnull)


def saves_long():
    saves(30)


def pauses():
    time.sleep(7)


torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=SECONDS))
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(16):
    optimizer.zero_grad()
    out = model(torch.randn(16, 64))
    if FAULT == "compiles" and step == 0 and RANK == 1:
        time.sleep(7)
    out.square().mean().backward()
    optimizer.step()
    time.sleep(0.02)
    if step == 11:
        os.write(1, f"fault {time.time()}\n".encode())  # in one piece: the ranks share the pipe
        if FAULT == "calls_another":
            dist.all_reduce(torch.ones(1000)) if RANK == 0 else calls_another()
        elif RANK == 1 and FAULT != "compiles":
            globals()[FAULT]()
            if FAULT == "leaves":
                break
dist.destroy_process_group()
