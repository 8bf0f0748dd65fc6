"""A small transformer on real GPUs, alone or under DDP or FSDP2, with a fault on one rank. No word of stepscope in it.

    python train_gpu.py --steps 60 --layers 6 --width 512
    torchrun --nproc-per-node 2 train_gpu.py --fault backward --rank 1 --ms 12

Faults (from --onset on): none; input (a slow loader), host (sleeps inside the step), forward, backward, optimizer (work on the device),
launch (many tiny kernels, the host cannot keep up), item (loss.item() every step), h2d (large pageable copies), creep (a tensor
more every step), lengths (longer sequences), fragment (holes that nothing fits into), pressure (a large reserve), oom, bandwidth
(large gradients).
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn

p = argparse.ArgumentParser()
p.add_argument("--steps", type=int, default=60)
p.add_argument("--layers", type=int, default=6)
p.add_argument("--width", type=int, default=512)
p.add_argument("--batch", type=int, default=16)
p.add_argument("--length", type=int, default=256)
p.add_argument("--fault", default="none")
p.add_argument("--rank", type=int, default=1)
p.add_argument("--ms", type=float, default=12.0)
p.add_argument("--onset", type=int, default=20)
p.add_argument("--mb", type=float, default=8.0)
p.add_argument("--mode", choices=("auto", "fsdp"), default="auto")
p.add_argument("--compile", default="")
p.add_argument("--graph", action="store_true", help="forward and backward as CUDA graphs")
p.add_argument(
    "--timing",
    action="store_true",
    help="print the step time in ms: median over ten blocks, each ended by a synchronize",
)
a = p.parse_args()

rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
torch.cuda.set_device(device)
if world > 1:
    dist.init_process_group("nccl", device_id=device)
mine = rank == a.rank or world == 1
cycles_per_ms = getattr(torch.cuda.get_device_properties(device), "clock_rate", 1_700_000)  # kHz


def spin(ms):
    """Work of known length on the current stream."""
    torch.cuda._sleep(int(ms * cycles_per_ms))


class Slow(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, ms_forward, ms_backward):
        ctx.ms = ms_backward
        if ms_forward:
            spin(ms_forward)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        if ctx.ms:
            spin(ctx.ms)
        return g, None, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = lambda: nn.TransformerEncoderLayer(
            a.width, 8, 4 * a.width, dropout=0.0, batch_first=True, device=device
        )
        self.layers = nn.ModuleList(layer() for _ in range(a.layers))
        self.head = nn.Linear(a.width, 32 if a.fault != "bandwidth" else 65536, device=device)
        self.slow = (0.0, 0.0)
        self.tiny = 0

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            if i == len(self.layers) // 2 and any(self.slow):
                x = Slow.apply(x, *self.slow)
            if i == 0 and self.tiny:
                y = x[:1, :1]  # so small that any device is done before the host has launched the next
                for _ in range(self.tiny):
                    y = y * 1.0
                x = x + 0.0 * y
        return self.head(x[:, 0])


def fragment(kept):
    """Takes a third of the device in segments of 20 MiB and keeps 11 MiB of each: nothing of 10 MiB or more fits into the rest."""
    count = int(torch.cuda.get_device_properties(device).total_memory / 3 / (20 * 2**20))
    row = [torch.empty(20 * 2**20, dtype=torch.uint8, device=device) for _ in range(count)]
    del row  # the segments stay, whole
    kept.extend(torch.empty(11 * 2**20, dtype=torch.uint8, device=device) for _ in range(count))


def data(step):
    length = a.length + (8 * step if a.fault == "lengths" else 0)
    return torch.randn(a.batch, length, a.width, pin_memory=True)


class Batches(torch.utils.data.Dataset):
    """--steps batches that cost nothing to make, except under the fault `input`."""

    def __init__(self):
        self.longest = data(a.steps if a.fault == "lengths" else 0)

    def __len__(self):
        return a.steps

    def __getitem__(self, step):
        if a.fault == "input" and mine and step >= a.onset:
            time.sleep(a.ms * 1e-3)
        if a.fault != "lengths":
            return self.longest
        shape = (
            a.batch,
            a.length + 8 * step,
            a.width,
        )  # the head of the one pinned buffer: contiguous, nothing to gather
        return self.longest.view(-1)[: shape[0] * shape[1] * shape[2]].view(shape)


def main():
    torch.manual_seed(rank)
    net = Net()
    model = net
    if a.mode == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for layer in net.layers:
            fully_shard(layer)
        fully_shard(net)
    elif world > 1:
        model = nn.parallel.DistributedDataParallel(net, device_ids=[device.index], bucket_cap_mb=10)
    if a.compile:
        model = torch.compile(model, mode=None if a.compile == "default" else a.compile)
    if a.graph:
        model = torch.cuda.make_graphed_callables(model, (data(0).to(device),))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    if a.fault == "optimizer":
        optimizer.register_step_pre_hook(lambda *_: spin(a.ms) if mine and step >= a.onset else None)
    kept, ends, block = [], [], max(1, a.steps // 13)
    big = torch.randn(48, 2**20) if a.fault == "h2d" else None
    if a.fault == "pressure":
        free, _ = torch.cuda.mem_get_info(device)
        kept.append(torch.empty(int(free * 0.96) - 2**30, dtype=torch.uint8, device=device))
    for step, batch in enumerate(torch.utils.data.DataLoader(Batches(), batch_size=None)):
        faulty = mine and step >= a.onset
        x = batch.to(device, non_blocking=True)
        if big is not None:
            big.to(device)
        if a.fault == "host" and faulty:
            time.sleep(a.ms * 1e-3)
        if a.fault == "oom" and step == a.onset:
            torch.empty(2**42, dtype=torch.uint8, device=device)
        net.slow = (a.ms * (a.fault == "forward"), a.ms * (a.fault == "backward")) if faulty else (0.0, 0.0)
        net.tiny = 1500 if a.fault == "launch" and faulty else 0
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if a.fault == "item" and faulty:
            loss.item()  # LINE item
        if a.fault == "fragment" and step == a.onset:
            fragment(kept)
        if a.fault == "creep" and faulty:
            kept.append(torch.empty(int(a.mb * 2**20), dtype=torch.uint8, device=device))
        if a.timing and (step + 1) % block == 0:
            torch.cuda.synchronize()
            ends.append(time.perf_counter())
    torch.cuda.synchronize()
    if a.timing and rank == 0:
        blocks = sorted((e - b) / block for b, e in zip(ends[2:], ends[3:]))
        print(f"TIMING {blocks[len(blocks) // 2] * 1e3:.4f}", flush=True)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


main()
