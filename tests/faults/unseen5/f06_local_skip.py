"""Each rank decides by its own loss whether it takes the optimizer step.

What happens: "skip bad batches": a rank whose loss lies above 1.6 times its running mean does not call
optimizer.step(). Backward has run by then, so that nothing hangs; but the other rank does step. From the first skip (a
batch of rank 1 with wrong labels in step 40, then in every 15th) the parameters of the two ranks differ, and each
rank's gradients belong to another model.
Who causes it: the decision made without the other rank.  What is lost: no time; the average over the ranks means less
and less from step 40 on, and the checkpoint of rank 0 is no longer what was trained.
Right advice: all-reduce the decision (or the loss) and skip together; the learning rate, the data order and the machine
are not the matter.
REPORT_FAULT=0: the largest loss of the ranks decides for all.
"""
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ALONE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, FEATURES, CLASSES, BAD_FROM, BAD_EVERY = 260, 128, 256, 10, 40, 15


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    true = torch.randn(FEATURES, CLASSES)
    model = DDP(nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(),
                              nn.Linear(512, CLASSES)))
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    torch.manual_seed(rank + 1)
    mean, skipped = None, []
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        x = torch.randn(BATCH, FEATURES)
        labels = (x @ true).argmax(1)
        if rank == 1 and step >= BAD_FROM and (step - BAD_FROM) % BAD_EVERY == 0:
            labels = (labels + 1) % CLASSES
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        judged = loss.detach().clone()
        if not ALONE:
            dist.all_reduce(judged, dist.ReduceOp.MAX)
        if mean is not None and step >= 20 and judged > 1.6 * mean:
            skipped.append(step)
        else:
            optimizer.step()
            mean = judged if mean is None else 0.9 * mean + 0.1 * judged
        durations.append(time.perf_counter() - began)
        if rank == 0 and step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    first = skipped[0] if skipped else None
    norm = sum(p.detach().square().sum() for p in model.parameters()).sqrt()
    print(f"rank {rank}: loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, "
          f"{len(skipped)} skipped, first {first}, norm {norm:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
