"""A translation model whose collate function runs a byte-pair tokenizer written in Python on every batch.

What happens: the loader has no workers, so the training process merges the pairs of every sentence by itself, the same
sentences again in every epoch, while the model waits.
Who causes it: the collate function, in every step.  What is lost: about the share that the tokenizer takes of a step.
Right advice: tokenize once before the training and store the ids, use a compiled tokenizer, or give the loader
workers; the model and the machine are sound.
REPORT_FAULT=0: the corpus is tokenized once before the loop, collate only pads.
"""
import os
import random
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader

TOKENIZE_LATE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, VOCAB = 220, 16, 400


class PairTokenizer:
    """Joins the neighbours whose union is the most frequent piece of the corpus, until no union is known."""

    def __init__(self, words, longest=8):
        self.counts, self.ids = {}, {}
        for word in words:
            for size in range(2, longest + 1):
                for i in range(len(word) - size + 1):
                    piece = word[i:i + size]
                    self.counts[piece] = self.counts.get(piece, 0) + 1

    def encode_word(self, word):
        parts = list(word)
        while len(parts) > 1:
            count, i = max((self.counts.get(a + b, 0), -i) for i, (a, b) in enumerate(zip(parts, parts[1:])))
            if count == 0:
                break
            parts[-i:2 - i] = [parts[-i] + parts[1 - i]]
        return [self.ids.setdefault(part, 1 + len(self.ids) % (VOCAB - 1)) for part in parts]

    def __call__(self, sentence):
        return [i for word in sentence.split() for i in self.encode_word(word)]


class Translator(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.source, self.target = nn.Embedding(VOCAB, width), nn.Embedding(VOCAB, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, VOCAB)

    def forward(self, source, target):
        _, state = self.encoder(self.source(source))
        out, _ = self.decoder(self.target(target[:, :-1]), state)
        return nn.functional.cross_entropy(self.head(out).flatten(0, 1), target[:, 1:].flatten(), ignore_index=0)


def pad(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


class Trainer:
    def __init__(self, model, loader):
        self.model, self.loader = model, loader
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.times = []

    def train(self, steps):
        self.model.train()
        step, before = 0, time.perf_counter()
        while step < steps:
            for source, target in self.loader:
                loss = self.model(source, target)
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                now = time.perf_counter()
                self.times.append(now - before)
                before = now
                if step % 50 == 0:
                    print(f"step {step} loss {loss.item():.3f}", flush=True)
                step += 1
                if step == steps:
                    break


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = random.Random(0)
    words = ["".join(rng.choices("abcdefghijklmnop", k=rng.randint(8, 18))) for _ in range(3000)]
    corpus = [tuple(" ".join(rng.choices(words, k=rng.randint(10, 15))) for _ in range(2)) for _ in range(960)]
    tokenizer = PairTokenizer(words)
    spent = [0.0]

    def encode_batch(pairs):
        begin = time.perf_counter()
        rows = [(tokenizer(source), tokenizer(target)) for source, target in pairs]
        spent[0] += time.perf_counter() - begin
        return pad([row[0] for row in rows]), pad([row[1] for row in rows])

    def pad_batch(rows):
        return pad([row[0] for row in rows]), pad([row[1] for row in rows])

    data = corpus if TOKENIZE_LATE else [(tokenizer(source), tokenizer(target)) for source, target in corpus]
    loader = DataLoader(data, batch_size=BATCH, shuffle=True, collate_fn=encode_batch if TOKENIZE_LATE else pad_batch)
    trainer = Trainer(Translator(), loader)
    begin = time.perf_counter()
    trainer.train(STEPS)
    total = time.perf_counter() - begin
    print(f"REPORT loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(trainer.times):.1f}", flush=True)
    print(f"REPORT lost_s={spent[0]:.2f} share={spent[0] / total:.3f} (time in the tokenizer)", flush=True)


if __name__ == "__main__":
    main()
