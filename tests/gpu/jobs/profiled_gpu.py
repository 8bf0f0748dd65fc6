"""A GPU-bound transformer, some steps of it under torch.profiler; writes phase spans by kernel ends (ms) as JSON.

Under torchrun it trains with DDP, and rank 0 writes `exposed` too: time of NCCL kernels during which nothing else ran.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.profiler import ProfilerActivity, profile, record_function

torch.manual_seed(0)
world, local = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("LOCAL_RANK", 0))
torch.cuda.set_device(local)
if world > 1:
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
layers = [nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0.0, batch_first=True) for _ in range(8)]
model = nn.Sequential(*layers).cuda()
if world > 1:
    model = nn.parallel.DistributedDataParallel(model, device_ids=[local])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(16, 512, 1024, device="cuda")
WARM, MEASURED = 15, 10
PHASES = ("forward", "backward", "optimizer")


def step():
    with record_function("forward"):
        y = model(x)
    loss = y.square().mean()
    with record_function("backward"):
        loss.backward()
    with record_function("optimizer"):
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)


for _ in range(WARM):
    step()
torch.cuda.synchronize()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
    for _ in range(MEASURED):
        step()
    torch.cuda.synchronize()
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "trace.json"
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]

launches, device = {}, []
for e in events:
    correlation = e.get("args", {}).get("correlation")
    if e.get("cat") in ("cuda_runtime", "cuda_driver") and correlation:
        launches[correlation] = e["ts"]
    elif e.get("cat") in ("kernel", "gpu_memset", "gpu_memcpy") and correlation:
        device.append((correlation, e["ts"], e["ts"] + e["dur"], "nccl" in e["name"].lower()))
ranges = {
    phase: sorted(
        (e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "user_annotation" and e["name"] == phase
    )
    for phase in PHASES
}
# Phases end with the compute stream's work; a collective runs beside it.
host = sorted((launches[c], end) for c, _, end, nccl in device if c in launches and not nccl)


def last_end_before(moment):
    """End of the last work on the device that was launched before `moment`, us."""
    return max((end for launched, end in host if launched <= moment), default=None)


def union(spans):
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def outside(spans, others):
    """Length of `spans` that no span of `others` covers; both are unions."""
    total = 0
    for begin, end in spans:
        covered = sum(max(0, min(end, b) - max(begin, a)) for a, b in others)
        total += end - begin - covered
    return total


# The first profiled steps pay for the profiler's own start.
skip = 3
out = {"steps": list(range(WARM + skip, WARM + MEASURED))}
for phase in PHASES:
    spans = []
    for begin, end in ranges[phase][skip:]:
        a, b = last_end_before(begin), last_end_before(end)
        # A boundary event on an empty stream completes when the host records it.
        spans.append((b - max(a, begin)) / 1e3)
    out[phase] = spans
if world > 1:
    compute = union([(a, b) for _, a, b, nccl in device if not nccl])
    collectives = union([(a, b) for _, a, b, nccl in device if nccl])
    ends = [last_end_before(end) for _, end in ranges["optimizer"]]
    out["exposed"] = [
        outside([(max(a, x), min(b, y)) for a, b in collectives if b > x and a < y], compute) / 1e3
        for x, y in zip(ends[skip - 1 : -1], ends[skip:])
    ]
if int(os.environ.get("RANK", 0)) == 0:
    Path(sys.argv[1]).write_text(json.dumps(out))
if world > 1:
    dist.destroy_process_group()
