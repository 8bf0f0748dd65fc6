"""A recommender over Python objects that calls gc.collect() in every sixth step to keep memory low.

What happens: the catalogue is a heap of more than half a million small dictionaries and lists that live as long as the
job; each collection walks all of them and finds nothing.
Who causes it: the training loop, in steps 5, 11, 17 ...  What is lost: a third to two thirds of the loop.
Right advice: drop the calls, gc.freeze() after loading, or keep the catalogue in arrays; the model and the data are
fine.
REPORT_FAULT=0: no call of gc.collect().
"""
import gc
import os
import random
import statistics
import time

import torch
from torch import nn

COLLECT = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, USERS, ITEMS = 300, 512, 5000, 3000


def load_catalogue():
    rng = random.Random(0)
    users = []
    for user in range(USERS):
        events = [{"item": rng.randrange(ITEMS), "stars": rng.randint(1, 5), "tags": [user % 7, i]} for i in range(60)]
        users.append({"id": user, "events": events})
    return users


class TwoTowers(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, width), nn.Embedding(ITEMS, width)
        self.user_tower = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.item_tower = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, user, item):
        return (self.user_tower(self.users(user)) * self.item_tower(self.items(item))).sum(-1)


def sample(catalogue, rng):
    user, item, stars = [], [], []
    for _ in range(BATCH):
        chosen = catalogue[rng.randrange(USERS)]
        event = chosen["events"][rng.randrange(60)]
        user.append(chosen["id"])
        item.append(event["item"])
        stars.append(event["stars"])
    return torch.tensor(user), torch.tensor(item), torch.tensor(stars, dtype=torch.float32)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    catalogue = load_catalogue()
    gc.collect()
    rng = random.Random(1)
    model = TwoTowers()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    times, collecting = [], 0.0
    begin = before = time.perf_counter()
    for step in range(STEPS):
        user, item, stars = sample(catalogue, rng)
        loss = nn.functional.mse_loss(model(user, item), stars)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if COLLECT and step % 6 == 5:
            t0 = time.perf_counter()
            gc.collect()
            collecting += time.perf_counter() - t0
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
        now = time.perf_counter()
        times.append(now - before)
        before = now
    total = time.perf_counter() - begin
    print(f"REPORT loop_s={total:.2f} steps={STEPS} median_ms={1e3 * statistics.median(times):.1f}", flush=True)
    print(f"REPORT lost_s={collecting:.2f} share={collecting / total:.3f} (time in gc.collect)", flush=True)


if __name__ == "__main__":
    main()
