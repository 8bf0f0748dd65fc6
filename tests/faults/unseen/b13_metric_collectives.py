# b13_metric_collectives: every micro-batch all-reduces some 60 scalars one by one and gathers a dict of metrics; conv net with accumulation
#
# TRUTH: {'kind': ['extra-collectives', 'comm-bound', 'sync-stall'], 'cause': ['metric all-reduces', 'many small collectives per step', 'per-metric .item()'], 'rank': None, 'phase': 'after backward / metrics', 'first_step': 0, 'lost_share': [0.15, 0.6], 'must_not': ['compute-straggler', 'straggler', 'input-straggler', 'input-bound', 'load-imbalance', 'pause-straggler', 'step-time-drift', 'gc-pause']}
#
# What happens: After each micro-batch every metric and each parameter's gradient norm goes through its own all_reduce and .item(), and all_gather_object collects a dict; both ranks spend the time equally.
# Advice: Stack the metrics into one tensor, reduce once every N steps; the gradient all-reduce itself (under no_sync except for the last micro-batch) is fine.
#
# Source:  sb-ai-lab/RePlay PR#100 (3902 step-time reductions replaced by one per epoch); mmcdermott/MEDS_EIC_AR#48 (sync_dist)
# Launch:  torchrun --nproc-per-node 2 b13_metric_collectives.py
# Control: REPORT_FAULT=0: metrics are summed locally and one stacked tensor is reduced every 20 optimizer steps
import contextlib, os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Meter:
    """What the job itself measures: wall and own-thread CPU time per step, and named pieces of work (ms)."""

    def __init__(self):
        self.life, self.last, self.wall, self.cpu, self.parts = time.perf_counter(), None, [], [], {}

    def tick(self):
        now = time.perf_counter(), time.thread_time()
        if self.last:
            self.wall.append(1e3 * (now[0] - self.last[0]))
            self.cpu.append(1e3 * (now[1] - self.last[1]))
        self.last = now

    def add(self, name, begun):
        self.parts.setdefault(name, []).append(1e3 * (time.perf_counter() - begun))

    def report(self, split=None, **more):
        line = f"REPORT fault={int(FAULT)} rank={RANK} steps={len(self.wall)} loop_s={sum(self.wall) / 1e3:.1f} "
        line += f"wall_median_ms={statistics.median(self.wall):.1f} wall_mean_ms={statistics.mean(self.wall):.1f} "
        line += f"own_cpu_median_ms={statistics.median(self.cpu):.1f} own_cpu_mean_ms={statistics.mean(self.cpu):.1f}"
        if split and split < len(self.wall) - 1:
            line += f" before_{split}_median_ms={statistics.median(self.wall[1:split]):.1f} after_{split}_median_ms={statistics.median(self.wall[split:]):.1f}"
        for name, ms in self.parts.items():
            line += f" {name}_n={len(ms)} {name}_median_ms={statistics.median(ms):.1f} {name}_total_s={sum(ms) / 1e3:.2f}"
        print(line + "".join(f" {k}={v}" for k, v in more.items()), flush=True)


def finish():
    time.sleep(0.3)
    dist.destroy_process_group()
    time.sleep(0.3)


STEPS, MICRO, BATCH = 80, 2, 16
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        widths = (3, 16, 24, 32, 32, 48, 48)
        layers = []
        for i, (a, b) in enumerate(zip(widths, widths[1:])):
            layers += [nn.Conv2d(a, b, 3, 2 if i in (1, 3) else 1, 1), nn.GroupNorm(4, b), nn.SiLU()]
        self.body, self.head = nn.Sequential(*layers), nn.Linear(48, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def measure(out, y, loss):
    values = {"loss": loss.detach(), "accuracy": (out.argmax(1) == y).float().mean(), "confidence": out.softmax(1).amax(1).mean().detach()}
    for c in range(10):
        mask = y == c
        values[f"recall/{c}"] = (out.argmax(1)[mask] == c).float().sum()
        values[f"logit/{c}"] = out[:, c].detach().mean()
        values[f"count/{c}"] = mask.float().sum()
    return values


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = Net()
    model = DDP(net)
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    meter, g, kept, history = Meter(), torch.Generator().manual_seed(RANK), [], []
    for step in range(STEPS):
        meter.tick()
        opt.zero_grad()
        for micro in range(MICRO):
            x = torch.randn(BATCH, 3, 32, 32, generator=g)
            y = torch.randint(0, 10, (BATCH,), generator=g)
            with contextlib.nullcontext() if micro == MICRO - 1 else model.no_sync():
                out = model(x)
                loss = F.cross_entropy(out, y)
                (loss / MICRO).backward()
            values = measure(out, y, loss)
            if FAULT:
                begun = time.perf_counter()
                for name, p in net.named_parameters():
                    values[f"norm/{name}"] = p.grad.norm()
                row = {}
                for name, value in values.items():
                    value = value.clone()
                    dist.all_reduce(value)
                    row[name] = value.item() / WORLD
                everyone = [None] * WORLD
                dist.all_gather_object(everyone, row)
                history.append(everyone)
                meter.add("metrics", begun)
            else:
                kept.append(torch.stack(list(values.values())))
        opt.step()
        if kept and step % 20 == 19:
            total = torch.stack(kept).sum(0)
            dist.all_reduce(total)
            history.append((total / WORLD / len(kept)).tolist())
            kept.clear()
    meter.tick()
    meter.report()
    finish()


if __name__ == "__main__":
    main()
