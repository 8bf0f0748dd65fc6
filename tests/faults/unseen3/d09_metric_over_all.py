"""The training AUC is computed anew over all predictions so far, after every step.

What happens: a metric object appends each batch's scores and labels and its compute() sorts all of them; nobody calls reset(),
and the progress bar asks for the value in every step.  Steps grow from about 25 ms to several times as much, on both
ranks alike, and the kept tensors grow a little, too.
Who causes it: the metric of all ranks.  What is lost: a third to two thirds of the loop, and it goes on growing.
Right advice: reset per epoch or window, compute every few hundred steps, or use a binned AUC; model, data and link are sound.
REPORT_FAULT=0: the metric is reset after each step (AUC of the batch).
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

KEEP = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, FIELDS = 260, 1536, 10


class AUC:
    def __init__(self):
        self.scores, self.labels, self.seconds = [], [], 0.0

    def update(self, scores, labels):
        self.scores.append(scores.detach())
        self.labels.append(labels)

    def compute(self):
        t0 = time.perf_counter()
        scores, labels = torch.cat(self.scores), torch.cat(self.labels)
        ordered = labels[scores.argsort(stable=True)]
        ranks = torch.arange(1, len(ordered) + 1, dtype=torch.float64)
        positive = ordered.double().sum()
        value = ((ranks * ordered).sum() - positive * (positive + 1) / 2) / (positive * (len(ordered) - positive))
        self.seconds += time.perf_counter() - t0
        return float(value)

    def reset(self):
        self.scores, self.labels = [], []


class Ranker(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(2000, width)
        self.mlp = nn.Sequential(nn.Linear(FIELDS * width, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, ids):
        return self.mlp(self.embed(ids).flatten(1)).squeeze(1)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    taste = torch.randn(2000)
    model = DDP(Ranker())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(rank)
    auc = AUC()
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        ids = torch.randint(2000, (BATCH, FIELDS), generator=generator)
        clicks = (torch.rand(BATCH, generator=generator) < taste[ids].sum(1).sigmoid()).float()
        scores = model(ids)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, clicks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        auc.update(scores, clicks)
        value = auc.compute()
        if not KEEP:
            auc.reset()
        if rank == 0 and step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f} auc {value:.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s={auc.seconds:.2f} share={auc.seconds / total:.3f} (time in compute)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
