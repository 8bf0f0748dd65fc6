"""A job of two ranks of which rank 1 does not start as it should. Usage: torchrun … start_job.py FAULT."""

import argparse
import datetime
import os
import sys
import time

FAULT, RANK = sys.argv[1], int(os.environ["RANK"])
SECONDS = float(os.environ.get("START_SECONDS", "4"))


def missing_module():
    time.sleep(1)
    import no_such_module  # noqa: F401


def bad_option():
    argparse.ArgumentParser().parse_args(["--no-such-option"])


def dies():
    os._exit(7)


if RANK == 1 and FAULT in ("missing_module", "bad_option", "dies"):
    globals()[FAULT]()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

torch.set_num_threads(1)


def raises():
    time.sleep(SECONDS)
    raise FileNotFoundError("tokenizer.json")


def sleeps():
    time.sleep(SECONDS)


def exits():
    sys.exit(3)


if RANK == 1 and FAULT in ("raises", "sleeps", "exits"):
    globals()[FAULT]()
if FAULT == "all_slow":
    time.sleep(SECONDS)
timeout = float(os.environ.get("START_TIMEOUT", "1800"))
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))
if FAULT == "prepares":
    if RANK == 0:
        sleeps()  # tokenises
    dist.barrier()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _step in range(20):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
dist.barrier()
time.sleep(0.5)  # torch's threads now and then abort at exit otherwise
dist.destroy_process_group()
