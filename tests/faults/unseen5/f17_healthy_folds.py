"""Healthy: cross validation, five models trained one after another in one process.

What looks like a fault: the loss falls for 120 steps and jumps back to where it began, with the gradient norm, five
times; the optimizer's state and the schedule start anew each time, and the loader's iterator too.
What is true: each fold has a model, an optimizer and a schedule of its own; the folds take the same time.
Right advice: none; no spike, no divergence, no drift, no schedule that runs ahead.
REPORT_FAULT=0: one model, trained for as many steps.
"""
import os
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

FOLDS = 5 if os.environ.get("REPORT_FAULT", "1") != "0" else 1
STEPS, BATCH, FEATURES, ROWS = 600, 128, 200, 3200


def fold(rows, kept, steps, durations):
    model = nn.Sequential(nn.Linear(FEATURES, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.AdamW(model.parameters(), 1.5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.5e-3, steps)
    loader = DataLoader(Subset(rows, kept), batch_size=BATCH, shuffle=True, drop_last=True)
    step = 0
    while step < steps:
        for x, y in loader:
            began = time.perf_counter()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            durations.append(time.perf_counter() - began)
            step += 1
            if step == steps:
                break
    return loss.item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x = torch.randn(ROWS, FEATURES)
    rows = TensorDataset(x, (x @ torch.randn(FEATURES, 10)).argmax(1))
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for k in range(FOLDS):
        kept = [i for i in range(ROWS) if i % 5 != k]
        print(f"fold {k} loss {fold(rows, kept, STEPS // FOLDS, durations):.3f}", flush=True)
    print(f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms")


if __name__ == "__main__":
    main()
