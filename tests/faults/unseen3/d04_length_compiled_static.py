"""torch.compile(dynamic=False) sees a new sequence length in nearly every second step and compiles again each time.

What happens: batches of a language model are cut to their own longest sentence (33 to 96 tokens).  The model is compiled
with dynamic=False, and someone raised torch._dynamo.config.recompile_limit to get rid of the warning, so each new length means
a new graph: a step of some hundred milliseconds between steps of a few tens.  It calms down as the lengths repeat.
One process.  Who causes it: the guards on the shape.  What is lost: a third to four fifths of the loop.
Right advice: dynamic=True or mark_dynamic, or pad to a few bucket lengths; the data, the machine and the optimizer are fine.
REPORT_FAULT=0: the lengths are padded up to 64 or 96 (two graphs).
"""
import os
import time

import torch
import torch._dynamo
from torch import nn

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, WORDS = 140, 12, 600
torch._dynamo.config.recompile_limit = 256


class Block(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, w))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.embed, self.place = nn.Embedding(WORDS, width), nn.Parameter(torch.randn(96, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(2)])
        self.out = nn.Linear(width, WORDS)

    def forward(self, tokens):
        return self.out(self.blocks(self.embed(tokens) + self.place[:tokens.shape[1]]))


def batches():
    generator = torch.Generator().manual_seed(5)
    for _ in range(STEPS):
        longest = int(torch.randint(33, 97, (1,), generator=generator))
        length = longest if FAULT else (64 if longest <= 64 else 96)
        tokens = torch.zeros(BATCH, length, dtype=torch.long)
        for row in tokens:
            n = int(torch.randint(20, longest + 1, (1,), generator=generator))
            row[:n] = torch.randint(1, WORDS, (n,), generator=generator)
        yield tokens


def main():
    torch.manual_seed(0)
    model = Model()
    compiled = torch.compile(model, dynamic=False, backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    begin = time.perf_counter()
    seen, first, again = set(), [], []
    for step, tokens in enumerate(batches()):
        t0 = time.perf_counter()
        logits = compiled(tokens)
        loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        (again if tokens.shape[1] in seen else first).append(time.perf_counter() - t0)
        seen.add(tokens.shape[1])
        if step % 40 == 0:
            print(f"step {step} len {tokens.shape[1]} loss {loss.item():.3f}", flush=True)
    total = time.perf_counter() - begin
    lost = sum(first) - len(first) * sum(again) / len(again)
    print(f"REPORT rank=0 loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} graphs={len(seen)}", flush=True)
    print(f"REPORT rank=0 lost_s={lost:.2f} share={lost / total:.3f} (steps with a new length, less what such a step takes)", flush=True)


if __name__ == "__main__":
    main()
