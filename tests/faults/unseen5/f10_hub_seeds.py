"""Neighbourhoods without a bound: now one rank, now the other draws a hub of the graph.

What happens: a graph network samples seeds and takes all neighbours of each. Degrees are heavy-tailed; a rank that
draws a hub has several times the edges of the other in this step, which waits for it in the all-reduce. Which rank it
is changes from step to step; the averages over a minute are nearly equal.
Who causes it: the uneven number of edges per rank and step; no rank in particular.  What is lost: in each step the
difference between the larger and the mean share, about a fifth of the time.
Right advice: deal the seeds to the ranks by the number of their edges or bound the neighbours; do not look for a slow
rank, loader or link.
REPORT_FAULT=0: the same seeds are dealt to the ranks so that both have about the same number of edges (of a hub each
takes half).
"""
import os
import statistics
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

BY_CHANCE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, SEEDS, NODES, WIDTH = 220, 32, 20000, 64


class Graph:
    def __init__(self):
        rng = np.random.default_rng(3)
        self.degree = np.minimum(16000, 45 * (1 + rng.pareto(1.15, NODES))).astype(np.int64)
        self.features = torch.randn(NODES, WIDTH, generator=torch.Generator().manual_seed(3))

    def batch(self, step, rank):
        """Seeds of this rank, their neighbours in one row and the seed that each belongs to."""
        rng = np.random.default_rng(step)
        seeds = rng.choice(NODES, 2 * SEEDS, replace=False)
        if BY_CHANCE:
            mine = seeds[rank * SEEDS:(rank + 1) * SEEDS]
            counts = self.degree[mine]
        else:
            shares, edges = ([], []), [0, 0]
            for seed in sorted(seeds, key=lambda s: -self.degree[s]):
                degree = self.degree[seed]
                parts = [(0, degree // 2), (1, degree // 2)] if degree > 2000 else [(int(edges[1] < edges[0]), degree)]
                for to, count in parts:  # both ranks take half of the neighbours of a hub
                    shares[to].append((seed, count))
                    edges[to] += count
            mine, counts = np.array(shares[rank]).T
        neighbours = torch.from_numpy(rng.integers(0, NODES, int(counts.sum())))
        owner = torch.from_numpy(np.repeat(np.arange(len(mine)), counts))
        return torch.from_numpy(mine.copy()), neighbours, owner


class Aggregate(nn.Module):
    def __init__(self):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(WIDTH, 192), nn.ReLU(), nn.Linear(192, WIDTH))
        self.own = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 8)

    def forward(self, seeds, neighbours, owner):
        total = torch.zeros_like(seeds).index_add(0, owner, self.message(neighbours))
        counts = torch.zeros(len(seeds), 1).index_add(0, owner, torch.ones(len(owner), 1))
        return self.head((self.own(seeds) + total / counts.clamp(min=1)).relu())


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    graph = Graph()
    model = DDP(Aggregate())
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    durations, edges, start, cpu = [], 0, time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        seeds, neighbours, owner = graph.batch(step, rank)
        edges += len(owner)
        out = model(graph.features[seeds], graph.features[neighbours], owner)
        loss = nn.functional.cross_entropy(out, graph.features[seeds][:, :8].argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, {edges} edges")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
