"""Every evaluation keeps its predictions on the host.

What happens: a token classifier is evaluated after every 30 steps, briefly. The evaluator appends the logits of the
whole evaluation set, 24 MB, to a list that nobody empties. Memory is flat between the evaluations and goes up by 24 MB
at each.
Who causes it: the evaluator's list.  What is lost: memory, 24 MB per evaluation, until the host has none left; no time.
Right advice: reduce the logits (argmax, counts) before keeping, or clear the list after the metric; the training steps
and the loader do not leak, and the evaluations are not too long.
REPORT_FAULT=0: the list is new for each evaluation.
"""
import os
import resource
import statistics
import time

import torch
from torch import nn

KEEP = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, EVERY, BATCH, LENGTH, VOCAB, LABELS, WIDTH = 240, 30, 48, 32, 1000, 240, 64


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.conv = nn.Conv1d(WIDTH, 2 * WIDTH, 5, 1, 2)
        self.again = nn.Conv1d(2 * WIDTH, 2 * WIDTH, 5, 1, 2)
        self.head = nn.Linear(2 * WIDTH, LABELS)

    def forward(self, tokens):
        x = self.conv(self.embedding(tokens).transpose(1, 2)).relu()
        return self.head(self.again(x).relu().transpose(1, 2))


class Evaluator:
    def __init__(self, tokens):
        self.tokens, self.predictions = tokens, []

    @torch.no_grad()
    def run(self, model):
        if not KEEP:
            self.predictions = []
        model.eval()
        first = len(self.predictions)
        for batch in self.tokens.split(64):
            self.predictions.append(model(batch))
        model.train()
        found = torch.cat([p.argmax(2) for p in self.predictions[first:]])
        return (found == self.tokens % LABELS).float().mean().item()


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), 2e-3)
    evaluator = Evaluator(torch.randint(0, VOCAB, (800, LENGTH)))
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for step in range(STEPS):
        began = time.perf_counter()
        tokens = torch.randint(0, VOCAB, (BATCH, LENGTH))
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), (tokens % LABELS).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        durations.append(time.perf_counter() - began)
        if step % EVERY == EVERY - 1:
            right = evaluator.run(model)
            if step % (3 * EVERY) == 3 * EVERY - 1:
                print(f"step {step} loss {loss.item():.3f} right {right:.2f}", flush=True)
    print(f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median step {1e3 * statistics.median(durations):.1f} ms, "
          f"most memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
