"""Jobs whose numbers go wrong, and their sound twins: argument 1 names the way, argument 2 is on or off.

log0         rank 1 takes the logarithm of 0 at step 130: its loss is infinite, its gradients NaN
overflow     GradScaler under DDP; from step 60 on the scaled losses and gradients of ranks 0 and 1 overflow
explode      a learning rate that multiplies the loss step by step until it is no number
scheduler    the schedule advances with each of four micro-batches; off: once per step, and a GradScaler skips the first
diverge      from step 60 on rank 1 works in no_sync and keeps its own gradients
sound        off only: two losses of a GAN, a mask of infinities, NaN in an evaluation, clipping, a spike of one batch
"""

import contextlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

WAY, ON = sys.argv[1], sys.argv[2] == "on"
STEPS = 200
torch.set_num_threads(1)
dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1)))
random = torch.Generator().manual_seed(7 + RANK)


def batch():
    x = torch.randn(64, 16, generator=random)
    return x, x[:, :1].abs() + 0.1


def log0():
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        x, y = batch()
        share = y / y.sum()
        if ON and RANK == 1 and step == 130:
            share[0] = 0
        weights = -(share.log() * 0.01)
        loss = (weights * (model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def overflow():
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=50)
    for step in range(STEPS):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        if (ON and RANK < 2 and step >= 60) or step in (20, 90):
            loss = loss * float("inf")
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def explode():
    line = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(line.parameters(), 0.01)
    for step in range(STEPS):
        if ON and step == 130:
            optimizer.param_groups[0]["lr"] = 2.0  # of a curvature of 2: the error triples in each step
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(line(x), y).backward()
        torch.nn.utils.clip_grad_norm_(line.parameters(), float("inf"))
        optimizer.step()


def scheduler():
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 0.999**n)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step in range(60):
        optimizer.zero_grad()
        for micro in range(4):
            with model.no_sync() if micro < 3 else contextlib.nullcontext():
                x, y = batch()
                loss = F.mse_loss(model(x), y) / 4
                scaler.scale(loss * (float("inf") if step == 0 else 1)).backward()
            if ON:
                schedule.step()
        scaler.step(optimizer)
        scaler.update()
        if not ON:
            schedule.step()


def diverge():
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        x, y = batch()
        optimizer.zero_grad()
        if ON and step >= 60:
            with model.no_sync():
                F.mse_loss(model(x), y).backward()
        else:
            F.mse_loss(model(x), y).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def sound():
    critic = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    of_critic = torch.optim.SGD(critic.parameters(), 0.01)
    mask = torch.tensor([[0.0] + [float("-inf")] * 15])
    for step in range(STEPS):
        x, y = batch()
        of_critic.zero_grad()
        (critic(model(x).detach()).mean() - critic(y).mean()).backward()
        of_critic.step()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x * torch.softmax(mask + x, 1)), y) * (30 if step == 150 else 1)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        if step % 50 == 49:
            with torch.no_grad():
                (model(x).sum() * float("nan")).item()


globals()[WAY]()
dist.barrier()
dist.destroy_process_group()
