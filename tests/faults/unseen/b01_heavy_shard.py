# b01_heavy_shard: rank 1 got the long documents (length-sorted corpus cut into contiguous shards); small transformer
#
# TRUTH: {'kind': ['load-imbalance', 'compute-straggler'], 'cause': ['longer sequences / heavier data on rank 1', 'uneven shard', 'input sizes differ between ranks'], 'rank': 1, 'phase': 'forward/backward', 'first_step': 0, 'lost_share': [0.12, 0.4], 'must_not': ['comm-bound', 'input-straggler', 'input-bound', 'pause-straggler', 'step-time-drift', 'gc-pause', 'cpu-contention']}
#
# What happens: The corpus is sorted by length and cut in halves, so rank 1 pads to ~95 tokens where rank 0 pads to ~55; rank 0 waits in the gradient all-reduce of every optimizer step (two micro-batches, no_sync in the first).
# Advice: Shard by length buckets or a length-balanced sampler, so that both ranks get the same number of tokens per optimizer step.
#
# Source:  microsoft/onnxruntime PR#10163; lightseekorg/TorchSpec#13; huggingface/transformers PR#47340
# Launch:  torchrun --nproc-per-node 2 b01_heavy_shard.py
# Control: REPORT_FAULT=0: bucket sampler: in each optimizer step both ranks take one short and one long micro-batch
import contextlib, os, statistics, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

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


DIM, BATCH, STEPS, MICRO, VOCAB = 128, 12, 60, 2, 2000
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))


class Corpus(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(3)
        half = n // 2
        lengths = torch.cat([torch.randint(40, 57, (half,), generator=g), torch.randint(74, 97, (n - half,), generator=g)])
        self.docs = [torch.randint(1, VOCAB, (int(length),), generator=g) for length in lengths]

    def __len__(self):
        return len(self.docs)

    def __getitem__(self, i):
        return self.docs[i], int(self.docs[i][0]) % 4


def pad(batch):
    docs, labels = zip(*batch)
    return nn.utils.rnn.pad_sequence(docs, batch_first=True), torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        layer = nn.TransformerEncoderLayer(DIM, 4, 4 * DIM, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, 4)

    def forward(self, tokens):
        hidden = self.encoder(self.embed(tokens), src_key_padding_mask=tokens == 0)
        return self.head(hidden.mean(1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    corpus = Corpus(STEPS * MICRO * BATCH * WORLD)
    half, share = len(corpus) // 2, len(corpus) // WORLD
    if FAULT:
        mine = list(range(RANK * share, (RANK + 1) * share))
        plan = [mine[i : i + BATCH] for i in range(0, share, BATCH)]
    else:
        short, long = range(RANK, half, WORLD), range(half + RANK, len(corpus), WORLD)
        plan = [list(part[i : i + BATCH]) for i in range(0, half // WORLD, BATCH) for part in (short, long)]
    loader = DataLoader(corpus, batch_sampler=plan, collate_fn=pad)
    model = DDP(Classifier())
    opt = torch.optim.AdamW(model.parameters(), 3e-4)
    meter, width = Meter(), []
    for i, (tokens, labels) in enumerate(loader):
        last = i % MICRO == MICRO - 1
        if i % MICRO == 0:
            meter.tick()
        with contextlib.nullcontext() if last else model.no_sync():
            (F.cross_entropy(model(tokens), labels) / MICRO).backward()
        if last:
            opt.step()
            opt.zero_grad(set_to_none=True)
        width.append(tokens.shape[1])
    meter.tick()
    meter.report(mean_padded_length=f"{statistics.mean(width):.1f}")
    finish()


if __name__ == "__main__":
    main()
