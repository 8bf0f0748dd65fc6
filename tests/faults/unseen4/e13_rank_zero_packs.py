"""Rank 0 tokenizes and packs the corpus before the barrier, alone, while rank 1 waits longer than the training lasts.

What happens: "main process first": rank 0 counts words, builds the vocabulary and packs blocks of 128 ids into a file;
rank 1 stands in the barrier. After it both train at full speed.
Who causes it: rank 0 before its first step.  What is lost: half of the job or so, once, before step 0; no step is
slow.
Right advice: prepare the corpus in a job of its own or keep the packed file between runs, divide the work among the
ranks; nothing in the training loop.
REPORT_FAULT=0: the packed file is made from one twelfth of the texts, as if it had been there.
"""
import os
import random
import statistics
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

WHOLE = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, BLOCK, VOCAB = 110, 4, 128, 2000
TEXTS = 30_000 if WHOLE else 2_500


def texts():
    rng = random.Random(0)
    letters = "etaoinshrdlu"
    words = ["".join(rng.choices(letters, k=rng.randint(2, 8))) for _ in range(8000)]
    for _ in range(TEXTS):
        yield " ".join(rng.choices(words, k=120)).capitalize() + "."


def pack(path):
    counts, rows = {}, []
    for text in texts():
        words = ["".join(c for c in word.lower() if c.isalpha()) for word in text.split()]
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        rows.append(words)
    known = sorted(counts, key=counts.get, reverse=True)[:VOCAB - 2]
    ids = {word: i + 2 for i, word in enumerate(known)}
    stream = []
    for words in rows:
        stream.extend(ids.get(word, 1) for word in words)
        stream.append(0)
    whole = len(stream) // (BLOCK + 1) * (BLOCK + 1)
    np.save(path, np.array(stream[:whole], dtype=np.int16).reshape(-1, BLOCK + 1))


class Decoder(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, width), nn.Embedding(BLOCK, width)
        layer = nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(BLOCK))
        self.head = nn.Linear(width, VOCAB)

    def forward(self, ids):
        x = self.words(ids) + self.places.weight
        return self.head(self.body(x, mask=self.mask, is_causal=True))


def main():
    torch.set_num_threads(1)
    begin = time.perf_counter()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    path = os.path.join(tempfile.gettempdir(), f"packed_{os.environ['MASTER_PORT']}.npy")
    if rank == 0:
        pack(path)
    dist.barrier()
    prepared = time.perf_counter() - begin
    blocks = np.load(path, mmap_mode="r")[rank::world]
    model = DDP(Decoder())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rng, times = np.random.default_rng(rank), []
    before = time.perf_counter()
    for step in range(STEPS):
        block = torch.from_numpy(blocks[rng.integers(len(blocks), size=BATCH)].astype(np.int64))
        scores = model(block[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), block[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        now = time.perf_counter()
        times.append(now - before)
        before = now
        if rank == 0 and step % 30 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} whole_s={total:.2f} prepared_s={prepared:.2f} share={prepared / total:.3f} "
          f"steps={STEPS} median_ms={1e3 * statistics.median(times):.1f}", flush=True)
    dist.barrier()
    if rank == 0:
        os.remove(path)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
