"""A rank of a job on two nodes: stays in the group for a while, says what the store holds, then leaves."""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist

seconds, kind = float(sys.argv[1]), sys.argv[2]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if kind == "file":
    store: dist.Store = dist.FileStore(os.environ["STORE_FILE"], world)
else:
    port = int(os.environ["MASTER_PORT"])
    store = dist.TCPStore("127.0.0.1", port, world, rank == 0, timedelta(seconds=60), wait_for_workers=False)
dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
begin_s = time.monotonic()
rounds = 0
while True:  # until rank 0 says that it is over: the ranks' clocks may differ by a round
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    rounds += 1
    go_on = torch.tensor([float(time.monotonic() - begin_s < seconds)])
    dist.broadcast(go_on, 0)
    if not go_on.item():
        break
    time.sleep(0.02)
if kind == "tcp":
    store.set(f"mine{rank}", "there")
    told = dist.distributed_c10d._get_default_store().check(["stepscope/aggregator"])
    print("key", told, flush=True)
print("sum", int(tensor.item()), flush=True)
dist.barrier()
dist.destroy_process_group()
