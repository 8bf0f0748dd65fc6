"""Prioritised replay that turns the priorities of all transitions ever seen into probabilities in every update.

What happens: the buffer of a Q-learning job has no bound and keeps its priorities in a Python list. Each update makes
an array of the list, raises it to a power, normalises it and draws from it: linear in the number of transitions, of
which each update adds 1,200. The updates get longer and longer; the network's own share stays as it was.
Who causes it: the sampling of the replay buffer.  What is lost: the time above the sampling from a bounded buffer.
Right advice: a ring buffer with arrays, or a sum tree; the network, the machine and the environments do not slow down.
REPORT_FAULT=0: a ring of the last 16,384 transitions with its priorities in one array.
"""
import os
import statistics
import time

import numpy as np
import torch
from torch import nn

UNBOUNDED = os.environ.get("REPORT_FAULT", "1") != "0"
UPDATES, ENVIRONMENTS, ROLLOUT, STATE, ACTIONS, BATCH, RING = 300, 40, 30, 12, 6, 256, 16384


class Everything:
    """All transitions, the priorities as a list."""

    def __init__(self):
        self.priorities = []
        self.states = np.zeros((UPDATES * ENVIRONMENTS * ROLLOUT, STATE), np.float32)
        self.returns = np.zeros(len(self.states), np.float32)

    def add(self, states, returns):
        begin = len(self.priorities)
        self.states[begin:begin + len(states)] = states
        self.returns[begin:begin + len(states)] = returns
        self.priorities.extend([1.0] * len(states))

    def draw(self, rng):
        weights = np.array(self.priorities) ** 0.6
        chosen = rng.choice(len(weights), BATCH, p=weights / weights.sum())
        return chosen, torch.from_numpy(self.states[chosen]), torch.from_numpy(self.returns[chosen])

    def update(self, chosen, errors):
        for i, error in zip(chosen, errors):
            self.priorities[i] = float(error) + 0.01


class Ring(Everything):
    def __init__(self):
        self.priorities, self.filled, self.next = np.zeros(RING), 0, 0
        self.states, self.returns = np.zeros((RING, STATE), np.float32), np.zeros(RING, np.float32)

    def add(self, states, returns):
        places = (self.next + np.arange(len(states))) % RING
        self.states[places], self.returns[places], self.priorities[places] = states, returns, 1.0
        self.next, self.filled = (self.next + len(states)) % RING, min(RING, self.filled + len(states))

    def draw(self, rng):
        weights = self.priorities[:self.filled] ** 0.6
        chosen = rng.choice(self.filled, BATCH, p=weights / weights.sum())
        return chosen, torch.from_numpy(self.states[chosen]), torch.from_numpy(self.returns[chosen])


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    model = nn.Sequential(nn.Linear(STATE, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, ACTIONS))
    optimizer = torch.optim.Adam(model.parameters(), 3e-4)
    buffer = Everything() if UNBOUNDED else Ring()
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for update in range(UPDATES):
        began = time.perf_counter()
        states = rng.standard_normal((ENVIRONMENTS * ROLLOUT, STATE)).astype(np.float32)
        buffer.add(states, states[:, :3].sum(1) + 0.1 * rng.standard_normal(len(states)))
        chosen, batch, returns = buffer.draw(rng)
        for _ in range(2):
            values = model(batch).max(1).values
            loss = nn.functional.smooth_l1_loss(values, returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        buffer.update(chosen, (values - returns).abs().detach().numpy())
        durations.append(time.perf_counter() - began)
        if update % 50 == 0:
            print(f"update {update} loss {loss.item():.3f}", flush=True)
    print(f"loop {time.perf_counter() - start:.2f} s, CPU {time.process_time() - cpu:.2f} s, "
          f"median update {1e3 * statistics.median(durations[:50]):.1f} ms at first, "
          f"{1e3 * statistics.median(durations[-50:]):.1f} ms at last")


if __name__ == "__main__":
    main()
