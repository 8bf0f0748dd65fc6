"""A character model decodes its validation set one sample and one token at a time, every 20 steps.

What happens: one process; fit() calls evaluate() every 20 steps, which decodes 72 prompts greedily, each with batch
size 1 and 40 single-token calls.  That takes about as long as the 20 training steps between, or somewhat less.
Who causes it: evaluate() (the validation), not training.  What is lost: 30 to 65 % of the loop.
Right advice: decode all prompts in one batch, fewer prompts, or validate less often.
REPORT_FAULT=0: the prompts are decoded as one batch (a few per cent).
"""
import os
import time

import torch
from torch import nn

ONE_BY_ONE = os.environ.get("REPORT_FAULT", "1") != "0"
VOCAB, STEPS, EVERY = 96, 180, 20


class CharModel(nn.Module):
    def __init__(self, hidden=160):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 64)
        self.rnn = nn.GRU(64, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, VOCAB)

    def forward(self, tokens, state=None):
        out, state = self.rnn(self.embed(tokens), state)
        return self.head(out), state


@torch.no_grad()
def decode(model, prompts, length=40):
    logits, state = model(prompts)
    token = logits[:, -1:].argmax(-1)
    out = [token]
    for _ in range(length - 1):
        logits, state = model(token, state)
        token = logits.argmax(-1)
        out.append(token)
    return torch.cat(out, 1)


def evaluate(model, prompts, answers):
    model.eval()
    if ONE_BY_ONE:
        texts = torch.cat([decode(model, p[None]) for p in prompts])
    else:
        texts = decode(model, prompts)
    model.train()
    return (texts == answers).float().mean().item()


def fit(model, corpus, prompts, answers):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 60, 0.5)
    validation, begin = 0.0, time.perf_counter()
    for step in range(1, STEPS + 1):
        start = torch.randint(len(corpus) - 50, (28,))
        chunk = torch.stack([corpus[s:s + 49] for s in start])
        logits, _ = model(chunk[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), chunk[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % EVERY == 0:
            t0 = time.perf_counter()
            score = evaluate(model, prompts, answers)
            validation += time.perf_counter() - t0
            print(f"step {step} loss {loss.item():.3f} match {score:.3f}", flush=True)
    return time.perf_counter() - begin, validation


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    text = (torch.arange(20000) * 7 + (torch.arange(20000) // 13) ** 2) % VOCAB
    total, validation = fit(CharModel(), text, torch.stack([text[i * 97:i * 97 + 12] for i in range(72)]),
                            torch.stack([text[i * 97 + 12:i * 97 + 52] for i in range(72)]))
    print(f"REPORT loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}")
    print(f"REPORT lost_s={validation:.2f} share={validation / total:.3f} (time in evaluate)")
