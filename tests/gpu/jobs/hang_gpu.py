"""A DDP training on NCCL in which one rank does something after a step. Usage: torchrun … hang_gpu.py FAULT RANK STEP.

With HANG_SYNC=1 the loss is read each step, so that the host waits for the device; else the host runs ahead of it.
"""

import ctypes
import datetime
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

FAULT, WHO, WHEN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
SECONDS = float(os.environ.get("HANG_SECONDS", "100"))
SYNC = os.environ.get("HANG_SYNC", "1") == "1"
RANK = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))


def sleeps():
    time.sleep(5 * SECONDS)


def holds_the_gil():
    lib = ctypes.PyDLL(None)
    lock = ctypes.create_string_buffer(64)
    lib.pthread_mutex_lock(lock)
    lib.pthread_mutex_lock(lock)


def stops():
    os.kill(os.getpid(), signal.SIGSTOP)


def spins():
    torch.cuda._sleep(int(2e9 * SECONDS))  # cycles: work of the device that does not end in time


def spins_and_reads():
    spins()
    torch.ones(1, device="cuda").item()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=SECONDS))
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
    model = torch.nn.parallel.DistributedDataParallel(net, device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    metric = torch.ones(1000, device="cuda")
    for step in range(100_000):
        optimizer.zero_grad()
        loss = model(torch.randn(32, 512, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        if SYNC:
            loss.item()
        time.sleep(0.01)
        skips = FAULT == "skips" and step == WHEN and RANK == WHO
        if step % 5 == 0 and not skips:
            dist.all_reduce(metric)
        if step == WHEN and RANK == WHO:
            os.write(1, f"fault {time.time()}\n".encode())
            if FAULT not in ("skips", "none"):
                globals()[FAULT]()
        if FAULT == "none" and step == 400:
            break
    dist.destroy_process_group()


main()
