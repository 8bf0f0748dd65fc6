"""Cyclic garbage that is never collected, as the collector is off.

What happens: a tagger of sequences was sped up by gc.disable(), a line from a blog. Each step makes a record of the
batch whose list of callbacks holds a bound method of the record itself: a cycle. Reference counts do not free it, and
nobody collects: inputs, outputs and labels of every batch (2 to 3 MB) stay until the process ends.
Who causes it: gc.disable() together with the record.  What is lost: no time; host memory, 2 to 3 MB per step from
the first on.
Right advice: collect from time to time (gc.collect() every few hundred steps, or leave the collector on) or break the
cycle (clear the callbacks, a weak reference); the model keeps no graph, and the loader does not leak.
REPORT_FAULT=0: the record clears its callbacks when its step is over; the collector is off as well.
"""

import gc
import os
import statistics
import time

import torch
from torch import nn

CYCLE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, FEATURES, HIDDEN, TAGS = 220, 64, 50, 120, 128, 24


def resident_mb():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


class StepRecord:
    """What the callbacks of a step may look at."""

    def __init__(self, meter):
        self.meter, self.values, self.callbacks = meter, {}, []
        self.callbacks.append(self.measure)

    def keep(self, **values):
        self.values.update(values)

    def measure(self):
        hits = (self.values["scores"].argmax(-1) == self.values["tags"]).float().mean()
        self.meter.append(hits.item())

    def finish(self):
        for callback in self.callbacks:
            callback()
        if not CYCLE:
            self.callbacks.clear()


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.recurrent = nn.GRU(FEATURES, HIDDEN, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * HIDDEN, TAGS)

    def forward(self, x):
        return self.head(self.recurrent(x)[0])


def main():
    gc.disable()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    tables = torch.randn(TAGS, FEATURES)
    meter, durations, sizes = [], [], []
    start, cpu = time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        record = StepRecord(meter)
        tags = torch.randint(0, TAGS, (BATCH, LENGTH))
        x = tables[tags] + torch.randn(BATCH, LENGTH, FEATURES)
        scores = model(x)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record.keep(inputs=x, scores=scores.detach(), tags=tags)
        record.finish()
        durations.append(time.perf_counter() - began)
        sizes.append(resident_mb())
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f} hits {meter[-1]:.2f} resident {sizes[-1]:.0f} MB", flush=True)
    print(
        f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
        f"median step {1e3 * statistics.median(durations):.1f} ms, resident {sizes[20]:.0f} MB in step 20, "
        f"{sizes[-1]:.0f} MB at the end"
    )


if __name__ == "__main__":
    main()
