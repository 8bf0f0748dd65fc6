"""The classifier head is replaced after the model was wrapped in DDP, so its gradients are never averaged.

What happens: a pretrained net is wrapped first, then `net.head` gets the right number of classes.  DDP has hooks on the old
head's parameters only (find_unused_parameters was set to silence the complaint): each rank trains a head of its own, from its
own random start and on its own data.  The heads of the ranks differ from the first step on, the body is the same.
Who causes it: the order of two lines.  What is lost: no time; the saved model is rank 0's head, trained on half the data.
Right advice: change the model before wrapping it (and set one seed before building it).
REPORT_FAULT=0: the head is replaced before the wrapping.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LATE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH = 420, 24


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 1, 1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.Conv2d(64, 96, 3, 2, 1), nn.BatchNorm2d(96), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.head = nn.Linear(384, 1000)

    def forward(self, x):
        return self.head(self.body(x))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(100 + rank)                     # the usual "each rank its own augmentation" seed
    net = Backbone()
    if LATE:
        model = DDP(net, find_unused_parameters=True)
        net.head = nn.Linear(384, 12)
    else:
        net.head = nn.Linear(384, 12)
        model = DDP(net)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    images, labels = torch.randn(480, 3, 32, 32), torch.randint(12, (480,))
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        pick = torch.randint(480, (BATCH,))
        loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    sums = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(sums, net.head.weight.detach().double().sum().float()[None])
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} head_sums={[round(float(s), 4) for s in sums]}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
