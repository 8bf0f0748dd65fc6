"""A language model keeps the entropy of every step for a plot, as a tensor with its graph.

What happens: the entropy is computed from the logits with gradients on, only to be watched, and appended to a list
without .item(). Nobody calls backward() on it, so each entry holds the probabilities of its batch for ever: about 5 MB
per step.
Who causes it: the history in the training process.  What is lost: hardly any time, but memory grows until the job is
killed.
Right advice: .item() or .detach() before the append, or compute it under no_grad; the data and the loader do not leak.
REPORT_FAULT=0: the list holds plain numbers.
"""
import os
import resource
import statistics
import time

import torch
from torch import nn

KEEP_GRAPH = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, VOCAB, WIDTH = 300, 8, 32, 1500, 160


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.body = nn.LSTM(WIDTH, WIDTH, 1, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens):
        out, _ = self.body(self.embed(tokens))
        return self.head(out)


def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2 ** 20


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = LanguageModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    text = torch.randint(VOCAB, (60_000,))
    history = {"loss": [], "entropy": []}
    times, memory = [], []
    begin = before = time.perf_counter()
    for step in range(STEPS):
        starts = torch.randint(len(text) - LENGTH - 1, (BATCH,))
        window = text[starts[:, None] + torch.arange(LENGTH + 1)]
        logits = model(window[:, :-1])
        loss = nn.functional.cross_entropy(logits.reshape(-1, VOCAB), window[:, 1:].reshape(-1))
        log_p = logits.log_softmax(-1)
        entropy = -(log_p.exp() * log_p).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["loss"].append(loss.item())
        history["entropy"].append(entropy if KEEP_GRAPH else entropy.item())
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.3f} entropy {float(entropy):.3f}", flush=True)
        now = time.perf_counter()
        times.append(now - before)
        before = now
        memory.append(resident_mb())
    total = time.perf_counter() - begin
    print(f"REPORT loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f}", flush=True)
    print(f"REPORT rss_mb={memory[30]:.0f}..{memory[-1]:.0f} (from step 30 to the end)", flush=True)


if __name__ == "__main__":
    main()
