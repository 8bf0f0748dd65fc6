"""Healthy: bf16 autocast, four micro-batches per update under no_sync, EMA of the weights and a scheduler per update.

What happens: three of four iterations are forward and backward only; the fourth also reduces gradients, clips, steps
AdamW and the schedule and updates the averaged weights.  So each fourth iteration is longer by some per cent to a
third, on both ranks alike, because that is what accumulation is.
Who causes it: nobody.  What is lost: nothing.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import contextlib
import copy
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

MICRO, UPDATES = 4, 55


class Mixer(nn.Module):
    def __init__(self, tokens=32, width=192):
        super().__init__()
        self.token = nn.ModuleList([nn.Linear(tokens, tokens) for _ in range(2)])
        self.channel = nn.ModuleList([nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width)) for _ in range(2)])
        self.norm = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.head = nn.Linear(width, 12)

    def forward(self, x):
        for token, channel, norm in zip(self.token, self.channel, self.norm):
            x = x + token(norm(x).transpose(1, 2)).transpose(1, 2)
            x = x + channel(x)
        return self.head(x.mean(1))


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(11)
    net = Mixer()
    ema = copy.deepcopy(net).requires_grad_(False)
    model = DDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, UPDATES)
    torch.manual_seed(50 + rank)
    dist.barrier()
    update_only, begin = 0.0, time.perf_counter()
    for update in range(UPDATES):
        for micro in range(MICRO):
            x, y = torch.randn(10, 32, 192), torch.randint(12, (10,))
            last = micro == MICRO - 1
            with contextlib.nullcontext() if last else model.no_sync():
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    loss = nn.functional.cross_entropy(model(x).float(), y) / MICRO
                loss.backward()
        t0 = time.perf_counter()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        with torch.no_grad():
            torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 0.01)
        update_only += time.perf_counter() - t0
        if rank == 0 and update % 10 == 0:
            print(f"update {update} loss {loss.item() * MICRO:.3f} lr {schedule.get_last_lr()[0]:.2e}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={UPDATES * MICRO} cpu_s={time.thread_time():.2f} "
          f"update_share={update_only / total:.3f}", flush=True)
    print(f"REPORT rank={rank} lost_s=0 share=0.0", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
