"""A small training that loses time at one line, marked `# here`. Usage: [torchrun …] line_job.py FAULT.

Prints the losses, exactly, at the end. LINE_STEPS: how many steps.
"""

import logging
import os
import sys
import threading
import time

import torch
import torch.distributed as dist

FAULT = sys.argv[1]
# Its extra work is a quarter of a short step: stacks meet it often enough in some seconds only.
SHORT = ("augments_on_one_rank",)
STEPS = int(os.environ.get("LINE_STEPS", "400" if FAULT in SHORT else "160"))
RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def nothing(step):
    pass


def sleeps(step):
    time.sleep(0.03)  # here


def computes_a_metric(step):
    hits = 0
    for k in range(250_000):
        hits += k % 7 == step % 7  # here
    return hits


def waits_for_a_lock(step):
    with lock:  # here
        pass


def logs(step):
    logging.getLogger("training").warning("step %d", step)


class SlowHandler(logging.Handler):
    def emit(self, record):
        os.path.exists(self.format(record))
        time.sleep(0.03)  # here logs


def gathers_objects(step):
    objects = [None] * WORLD
    dist.all_gather_object(objects, history)  # here


def pauses_on_one_rank(step):
    if RANK == 1 and step % 10 == 9:
        time.sleep(0.4)  # here


def saves(step):
    if step % 4 == 3:
        torch.save({"model": model.state_dict(), "slow": Slow()}, os.devnull)


class Slow:
    def __reduce__(self):
        time.sleep(0.15)  # here saves
        return (int, ())


def shares_the_gil(step):
    return sum(k % 7 == step % 7 for k in range(100_000))


def crunch():
    while training:
        for k in range(1_000_000):
            k * k % 7  # here shares_the_gil


def hold_the_lock():
    while training:
        with lock:
            time.sleep(0.03)
        time.sleep(0.01)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))

    def forward(self, x):
        if FAULT == "augments_on_one_rank" and RANK == 1:
            x = augment(x)
        return self.layers(x)


def augment(x):
    for _ in range(12):
        x = x.sort(dim=1).values.flip(0).flip(0)  # here augments_on_one_rank
    return x


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * 4

    def __getitem__(self, i):
        if FAULT == "loads_slowly_on_one_rank" and RANK == 1:
            time.sleep(0.01)  # here loads_slowly_on_one_rank
        return torch.full((256,), i / (STEPS * 4))


def collate(batch):
    if FAULT == "collates_slowly":
        time.sleep(0.03)  # here collates_slowly
    return torch.stack(batch)


torch.set_num_threads(1)
torch.manual_seed(RANK)
lock, training = threading.Lock(), True
history = [{"loss": k / 3, "name": str(k)} for k in range(20_000)]
logging.getLogger("training").addHandler(SlowHandler())
logging.getLogger("training").propagate = False
model = network = Model()
if WORLD > 1:
    dist.init_process_group("gloo")
    network = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
between = globals().get(FAULT, nothing)
if FAULT == "waits_for_a_lock":
    threading.Thread(target=hold_the_lock, daemon=True).start()
if FAULT == "shares_the_gil":
    threading.Thread(target=crunch, daemon=True).start()
losses = []
for step, x in enumerate(torch.utils.data.DataLoader(Data(), batch_size=4, collate_fn=collate)):
    optimizer.zero_grad()
    for _ in range(3):
        loss = network(x.repeat(64, 1)).square().mean()
        loss.backward()
    optimizer.step()
    losses.append(loss.detach())
    between(step)
training = False
print("losses", " ".join(float(loss).hex() for loss in losses), flush=True)
if WORLD > 1:
    time.sleep(0.5)
    dist.destroy_process_group()
    time.sleep(0.5)
