"""The victim: a short deterministic DDP loop on gloo that says everything it does. 2 ranks, about 2 s of steps.

Lines: CHAOS rank=R pid=P imported | ready | step=K loss=<bits> | done. Losses are printed bit by bit, so that two runs can be
compared exactly.
"""

import datetime
import os
import struct
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

RANK = int(os.environ["RANK"])
STEPS = int(os.environ.get("CHAOS_STEPS", "100"))


def say(text):
    print(f"CHAOS rank={RANK} pid={os.getpid()} {text}", flush=True)


def main():
    say("imported")
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=40))
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)))
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    data = torch.Generator().manual_seed(100 + RANK)
    say("ready")
    for i in range(STEPS):
        x, y = torch.randn(32, 64, generator=data), torch.randn(32, 64, generator=data)
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        opt.step()
        time.sleep(0.015)
        say(f"step={i} loss={struct.pack('>f', loss.item()).hex()}")
    say("done")
    time.sleep(0.3)  # gloo's threads abort now and then when ranks leave at once
    dist.destroy_process_group()
    time.sleep(0.5)


main()
