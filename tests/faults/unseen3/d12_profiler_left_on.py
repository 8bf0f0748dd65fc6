"""torch.profiler was left on in the whole run and writes a trace every 16 steps.

What happens: prof.step() is called in every step with schedule(wait=0, warmup=1, active=15) and shapes; after every
sixteenth step each rank turns the events into a chrome trace and writes it.  Both ranks do so in the same steps, for
as long as about ten steps or more; the steps between are a little slower, too.
Who causes it: the profiler of all ranks, after steps 15, 31, 47 ...  What is lost: a fifth to two thirds of the loop.
Right advice: repeat=1 (or a wait of thousands of steps), no profiler in long runs; model, data and link are sound.
REPORT_FAULT=0: repeat=1, the profiler is off after the first 16 steps.
"""
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.profiler import ProfilerActivity, profile, schedule

REPEAT = 0 if os.environ.get("REPORT_FAULT", "1") != "0" else 1
STEPS, BATCH, WORDS = 240, 16, 500


class Model(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(width, 4, 256, 0.0, batch_first=True) for _ in range(3)])
        self.out = nn.Linear(width, WORDS)

    def forward(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    folder, spent = tempfile.mkdtemp(), [0.0]

    def write(prof):
        prof.export_chrome_trace(os.path.join(folder, f"trace_{prof.step_num}.json"))

    model = DDP(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    generator = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=15, repeat=REPEAT),
                 on_trace_ready=write, record_shapes=True, profile_memory=True, with_stack=True) as prof:
        for step in range(STEPS):
            tokens = torch.randint(WORDS, (BATCH, 32), generator=generator)
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(-1, 1).flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            t0 = time.perf_counter()
            prof.step()
            spent[0] += time.perf_counter() - t0
            if rank == 0 and step % 40 == 0:
                print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s={spent[0]:.2f} share={spent[0] / total:.3f} (time in prof.step)", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
