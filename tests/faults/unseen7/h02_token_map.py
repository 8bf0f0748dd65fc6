"""Healthy: a language model reads crops from a mapped file of tokens, and resident memory rises all the time.

What looks like a fault: the resident memory of the process rises by about a megabyte a step, from start to
end, in a straight line, to several hundred megabytes, as with a leak.
What is true: the growth is pages of the mapped file (RssFile in /proc/self/status) that the kernel keeps because there
is room, and drops when somebody needs it; it is bounded by the size of the file. The memory of the process itself
(RssAnon) is level. The file was shuffled when written and is read from front to back: hence the straight line.
Right advice: none; at most a remark that resident memory includes pages of the file. No leak, nothing to free.
REPORT_FAULT=0: the crops are read with pread() instead of a mapping.
"""

import os
import statistics
import tempfile
import time

import numpy as np
import torch
from torch import nn

MAPPED = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, WIDTH, WORDS = 330, 16, 64, 128, 1024
DOCUMENTS, DOCUMENT = 8192, 32768


def write_tokens(path):
    draw = np.random.default_rng(5)
    with open(path, "wb") as file:
        for _ in range(DOCUMENTS // 512):
            first = draw.integers(0, WORDS, 512 * DOCUMENT, dtype=np.uint16)
            first[1::2] = (first[::2] * 5 + 7) % WORDS
            first.tofile(file)


class Tokens:
    """One crop of each document, in the order of the file, which was shuffled when it was written."""

    def __init__(self, path):
        self.file = open(path, "rb")
        self.map = np.memmap(path, np.uint16, "r", shape=(DOCUMENTS, DOCUMENT)) if MAPPED else None
        self.draw = np.random.default_rng(6)

    def crop(self, document):
        begin = int(self.draw.integers(0, DOCUMENT - LENGTH - 1))
        if self.map is not None:
            return self.map[document, begin : begin + LENGTH + 1].astype(np.int64)
        raw = os.pread(self.file.fileno(), 2 * (LENGTH + 1), 2 * (document * DOCUMENT + begin))
        return np.frombuffer(raw, np.uint16).astype(np.int64)

    def __iter__(self):
        while True:
            for part in np.split(np.arange(DOCUMENTS), DOCUMENTS // BATCH):
                yield torch.from_numpy(np.stack([self.crop(document) for document in part.tolist()]))


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 3 * WIDTH, 0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, WORDS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH))

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight
        return self.head(self.layers(x, mask=self.mask, is_causal=True))


def resident():
    with open("/proc/self/status") as status:
        found = dict(line.split(":", 1) for line in status)
    return [int(found[key].split()[0]) / 1024 for key in ("RssAnon", "RssFile", "RssShmem")]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.bin")
        write_tokens(path)
        batches = iter(Tokens(path))
        durations, waits, before, start = [], [], None, time.perf_counter()
        for step in range(STEPS):
            began = time.perf_counter()
            batch = next(batches)
            waits.append(time.perf_counter() - began)
            loss = nn.functional.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            durations.append(time.perf_counter() - began)
            if step == 20:
                before = resident()
            if step % 50 == 0:
                print(f"step {step} loss {loss.item():.3f} resident {sum(resident()):.0f} MiB", flush=True)
        loop, after = time.perf_counter() - start, resident()
        print(f"REPORT loop_s={loop:.2f} median_step_ms={1e3 * statistics.median(durations):.1f}")
        print(f"REPORT input_share={sum(waits) / loop:.4f}")
        names = ("anon", "file", "shmem")
        print("REPORT growth_MiB " + " ".join(f"{n}={b - a:.1f}" for n, a, b in zip(names, before, after)))


if __name__ == "__main__":
    main()
