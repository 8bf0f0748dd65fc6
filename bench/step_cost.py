"""Added time of one always-on step, zero-code, on a machine that is not quiet.

    python bench/step_cost.py [plain|ddp|stamped|loader ...]      # stamped: DDP with a completion stamp per collective

One process, injected. Blocks of steps run in turn with the hooks in place and with every one of them taken out (the
names put back that were replaced); the difference of neighbouring blocks is what the hooks add, free of what else the
machine does. Time is the training thread's own CPU time. The steps are as small as torch allows. Printed: the median over the pairs of blocks, with its quartiles,
and the same for an A/A comparison (hooks out in both), which shows the noise.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

JOB = r"""
import gc, statistics, struct, sys, time, torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
kind = sys.argv[1]
m, buckets = nn.Linear(8, 8), 0
if kind in ("ddp", "stamped"):
    import torch.distributed as dist
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    m = nn.parallel.DistributedDataParallel(m)
o = torch.optim.SGD(m.parameters(), 0.01)
x = torch.randn(4, 8)
def batches():
    while True:
        yield from DataLoader(TensorDataset(torch.randn(64, 8)), 4)
source = batches()
def step():
    batch = next(source)[0] if kind == "loader" else x
    m(batch).sum().backward()
    o.step()
    o.zero_grad()
for _ in range(300): step()

from stepscope import _native as n
from torch.optim import optimizer as TO
from torch.utils.data import dataloader as DL
assert n.active() and n.counters()[2] > 100, n.counters()
wrapped = torch.autograd._engine_run_backward
saved = [(TO._global_optimizer_pre_hooks, dict(TO._global_optimizer_pre_hooks)), (TO._global_optimizer_post_hooks, dict(TO._global_optimizer_post_hooks)),
         (m._forward_pre_hooks, dict(m._forward_pre_hooks)), (m._forward_hooks, dict(m._forward_hooks)), (m._forward_hooks_always_called, dict(m._forward_hooks_always_called))]
next_method = DL._BaseDataLoaderIter.__dict__["__next__"]
if kind in ("ddp", "stamped"):
    from stepscope.hooks import groups
    pg = dist.group.WORLD; pre, post = groups._known[id(pg)].hooks
if kind == "stamped":
    with open(n.path(), "r+b") as box:  # as the agent asks: docs/formats/blackbox.md, control words
        box.seek(384); box.write(struct.pack("<Q", 1 << 62))
    for _ in range(50): step()
    assert groups._known[id(pg)].post, "nothing is stamped"
def hooks(on):
    for live, kept in saved:
        live.clear()
        if on: live.update(kept)
    torch.autograd._engine_run_backward = wrapped if on else wrapped.__self__
    torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward
    if kind in ("ddp", "stamped"):
        pg.unregister_pre_hook(groups._HOOK_ID)
        if on: pg.register_pre_hook(groups._HOOK_ID, pre)
    if kind == "stamped":
        pg.unregister_post_hook(groups._HOOK_ID)
        if on: pg.register_post_hook(groups._HOOK_ID, post)
    if kind == "loader": DL._BaseDataLoaderIter.__next__ = next_method if on else plain_next
# What stood there before is held by the native side; this is what torch 2.15 has.
def plain_next(self):
    with torch.autograd.profiler.record_function(self._profile_name):
        if self._sampler_iter is None: self._reset()
        data = self._next_data()
        self._num_yielded += 1
        if self._dataset_kind == DL._DatasetKind.Iterable and self._IterableDataset_len_called is not None: pass
        return data
gc.disable()
def block(size=48):
    t = []
    for _ in range(size):
        a = time.thread_time_ns(); step(); t.append(time.thread_time_ns() - a)
    t.sort()
    return t[size // 4] / 1e3
def compare(a, b, pairs=200):
    out, base = [], []
    for i in range(pairs):
        got = {}
        for which in ((0, 1) if i % 2 else (1, 0)):
            hooks((a, b)[which]); got[which] = block()
        out.append(got[1] - got[0]); base.append(got[0])
    return statistics.quantiles(out, n=4), statistics.median(base)
compare(False, True, 20)
(q1, q2, q3), base = compare(False, True)
(z1, z2, z3), _ = compare(False, False)
print(f"{kind:7} bare step {base:6.1f} us; hooks add {q2:+.2f} us (quartiles {q1:+.2f} to {q3:+.2f}); A/A {z2:+.2f} us ({z1:+.2f} to {z3:+.2f})")
"""


def main() -> None:
    import stepscope

    package = Path(stepscope.__file__).parent
    for kind in sys.argv[1:] or ["plain", "ddp", "stamped", "loader"]:
        folder = tempfile.mkdtemp(prefix="ss-bench-", dir="/dev/shm")
        env = {k: v for k, v in os.environ.items() if not k.startswith("STEPSCOPE")}
        env.update(PYTHONPATH=f"{package / '_inject'}:{package.parent}", STEPSCOPE_SHM=folder, OMP_NUM_THREADS="1")
        try:
            subprocess.run([sys.executable, "-c", JOB, kind], env=env, check=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
