"""Goes to a place and stays there until stdin says so; or trains. Prints its pid and black box first."""

import ctypes
import hashlib
import os
import sys
import threading
import time

import torch

from stepscope import _native


def sleeps():
    time.sleep(60)


def spins():
    at = 0
    while True:
        at += 1


def holds_the_gil():
    lib = ctypes.PyDLL(None)
    lock = ctypes.create_string_buffer(64)
    lib.pthread_mutex_lock(lock)
    lib.pthread_mutex_lock(lock)


def waits_for_a_lock():
    lock = threading.Lock()
    with lock:
        lock.acquire()


def reads():
    input()


def deep():
    def down(levels):
        return down(levels - 1) if levels else time.sleep(60)

    down(400)


def trains():
    """Prints a hash of the weights, how long a sleep took and whether a wait with a time limit kept to it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
    optimizer = torch.optim.Adam(model.parameters())
    until = time.monotonic() + float(sys.argv[2])
    steps = 0
    while steps < 600 or time.monotonic() < until:
        if steps < 600:
            optimizer.zero_grad()
            model(torch.randn(32, 64)).square().mean().backward()
            optimizer.step()
        else:
            time.sleep(0.01)
        steps += 1
    begin = time.monotonic()
    time.sleep(0.3)
    threading.Event().wait(0.3)
    slept = time.monotonic() - begin
    digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    print(digest, "kept" if 0.6 <= slept < 5 else f"slept {slept}", flush=True)


print(os.getpid(), _native.path(), flush=True)
globals()[sys.argv[1]]()
