"""Each rank lowers its learning rate by its own loss, and the ranks train different models.

What happens: two ranks train with DistributedDataParallel. Every 15 steps ReduceLROnPlateau gets the mean training loss
of that rank's own batches. The loss of one rank stops falling earlier than the other's; its learning rate is multiplied
by 0.3 in a step in which the other rank's is not. The gradients stay equal, but the updates differ from then on, and
the parameters drift apart without any error; DistributedDataParallel sends parameters only once, at the start.
Who causes it: the scheduler's argument (a local loss). No rank is slow or at fault by itself.
What is lost: no time; the result: gradients are means over different models, and the saved model is rank 0's.
Right advice: all_reduce the loss before scheduler.step (or decide on rank 0 and broadcast) and start again from a
checkpoint before the first difference.
REPORT_FAULT=0: the scheduler gets the mean over the ranks.
"""

import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LOCAL = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, FIELDS, VALUES, CODE, HIDDEN, WINDOW = 330, 512, 24, 300, 16, 512, 15


class Clicks:
    """Rows of categories and whether a click followed; the two regions differ in how well it can be foretold."""

    def __init__(self, rank):
        draw = torch.Generator().manual_seed(1)
        self.effects = torch.randn(FIELDS, VALUES, generator=draw)
        self.rows = torch.arange(FIELDS)
        self.draw, self.noise = torch.Generator().manual_seed(100 + rank), 1.0 + 2.0 * rank

    def batch(self):
        row = (torch.rand(BATCH, FIELDS, generator=self.draw).square() * VALUES).long()
        score = self.effects[self.rows, row].sum(1) + self.noise * torch.randn(BATCH, generator=self.draw)
        return row, (score > 0).float()


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(FIELDS * VALUES, CODE)
        nn.init.normal_(self.codes.weight, std=0.1)
        self.register_buffer("begins", torch.arange(FIELDS) * VALUES)
        self.deep = nn.Sequential(
            nn.Linear(FIELDS * CODE, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 1)
        )

    def forward(self, rows):
        codes = self.codes(rows + self.begins)
        pairs = 0.5 * (codes.sum(1).square() - codes.square().sum(1)).sum(1)
        return self.deep(codes.flatten(1)).squeeze(1) + 0.1 * pairs


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DDP(Ranker())
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.3, patience=1, threshold=0.02)
    clicks, window, rates, durations = Clicks(rank), [], [], []
    start = time.perf_counter()
    for step in range(STEPS):
        began = time.perf_counter()
        rows, clicked = clicks.batch()
        loss = nn.functional.binary_cross_entropy_with_logits(model(rows), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        window.append(loss.detach())
        if len(window) == WINDOW:
            mean = torch.stack(window).mean()
            if not LOCAL:
                dist.all_reduce(mean)
                mean /= world
            scheduler.step(mean.item())
            window.clear()
        rates.append(optimizer.param_groups[0]["lr"])
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f} rate {rates[-1]:.2g}", flush=True)
        durations.append(time.perf_counter() - began)
    loop = time.perf_counter() - start
    mine = torch.cat([p.detach().flatten() for p in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    every = [torch.zeros(STEPS, dtype=torch.float64) for _ in range(world)]
    dist.all_gather(every, torch.tensor(rates, dtype=torch.float64))
    differ = (every[0] != every[-1]).nonzero().flatten().tolist()
    cuts = [step for step in range(1, STEPS) if rates[step] != rates[step - 1]]
    print(
        f"REPORT rank={rank} loop_s={loop:.2f} median_step_ms={1e3 * statistics.median(durations):.1f} cuts={cuts} "
        f"first_step_with_other_rate={differ[0] + 1 if differ else None} "
        f"distance_to_rank0={((mine - first).norm() / first.norm()).item():.4f}",
        flush=True,
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
