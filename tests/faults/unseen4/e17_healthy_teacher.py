"""Healthy: distillation, with the teacher in eval mode and without gradients in every step.

What looks like a fault: half of the time is a forward pass under no_grad() of a model in eval mode, as in a
validation.
What is true: the teacher's scores are the target of the student; the batches are augmented anew, so they cannot be
kept.
Right advice: none.
REPORT_FAULT=0: no teacher, the student learns from the labels alone (less work, another training).
"""
import copy
import os
import statistics
import time

import torch
from torch import nn

TEACHER = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, CLASSES, LENGTH = 200, 32, 12, 48


class Encoder(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.enter = nn.Linear(16, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.body(self.enter(x)).mean(1))


def augmented(series, labels):
    index = torch.randint(len(series), (BATCH,))
    x = series[index]
    x = x.roll(int(torch.randint(LENGTH, ())), 1) * (0.8 + 0.4 * torch.rand(BATCH, 1, 1))
    return x + 0.1 * torch.randn_like(x), labels[index]


def distillation(scores, target, labels, temperature=2.0):
    hard = nn.functional.cross_entropy(scores, labels)
    if target is None:
        return hard
    soft = nn.functional.kl_div((scores / temperature).log_softmax(-1), (target / temperature).softmax(-1),
                                reduction="batchmean")
    return 0.3 * hard + 0.7 * temperature ** 2 * soft


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    labels = torch.arange(2048) % CLASSES
    phase = torch.arange(LENGTH)[None, :, None] * (1 + labels[:, None, None]) / 8
    series = torch.sin(phase + torch.arange(16)) + 0.3 * torch.randn(2048, LENGTH, 16)
    teacher, student = Encoder(128, 2).eval().requires_grad_(False), Encoder(64, 2)
    average = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, STEPS)
    times, teaching = [], 0.0
    begin = before = time.perf_counter()
    for step in range(STEPS):
        x, label = augmented(series, labels)
        t0, target = time.perf_counter(), None
        if TEACHER:
            with torch.inference_mode():
                target = teacher(x).clone()
            target = target.clone()
        teaching += time.perf_counter() - t0
        loss = distillation(student(x), target, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        for slow, fast in zip(average.parameters(), student.parameters()):
            slow.lerp_(fast, 0.02)
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f} lost_s=0 "
          f"teacher_share={teaching / total:.3f}", flush=True)


if __name__ == "__main__":
    main()
