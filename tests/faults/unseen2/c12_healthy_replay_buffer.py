"""Healthy: a replay buffer fills for the first third of the run and is then bounded.

What happens: one process trains a Q network.  Each iteration adds transitions of about 8 MB to a deque with maxlen 70,
so host memory rises steadily to some 560 MB more and stays there for the other two thirds; target network synced every
20 iterations, epsilon decays.  Iterations cost the same before and after.
Who causes it: nobody.  What is lost: nothing.  Right advice: leave it alone; the buffer is bounded by design.
REPORT_FAULT has no effect.
"""
import collections
import copy
import random
import resource
import time

import numpy as np
import torch
from torch import nn

ITERATIONS, CAPACITY = 220, 70
STATE, ACTIONS, ENVS = 500, 6, 2000


class Environments:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.noise = self.rng.standard_normal((8, ENVS, STATE), dtype=np.float32)
        self.state = self.noise[0].copy()

    def step(self, actions):
        before = self.state
        self.state = 0.9 * before + 0.1 * self.noise[self.rng.integers(8)]
        self.state[:, :ACTIONS] += 0.01 * actions[:, None]
        reward = -np.abs(self.state[:, :ACTIONS]).mean(1)
        return before, actions, reward, self.state.copy()


def rss_mb():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 1e6


def sample(buffer, size=384):
    states, actions, rewards, following = [], [], [], []
    for _ in range(4):
        s, a, r, n = random.choice(buffer)
        rows = np.random.randint(ENVS, size=size // 4)
        states.append(s[rows]), actions.append(a[rows]), rewards.append(r[rows]), following.append(n[rows])
    return [torch.from_numpy(np.concatenate(v)) for v in (states, actions, rewards, following)]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    online = nn.Sequential(nn.Linear(STATE, 768), nn.ReLU(), nn.Linear(768, 512), nn.ReLU(), nn.Linear(512, ACTIONS))
    target = copy.deepcopy(online).requires_grad_(False)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-4)
    environments, buffer = Environments(), collections.deque(maxlen=CAPACITY)
    memory, acting = [], 0.0
    begin = time.perf_counter()
    for iteration in range(ITERATIONS):
        t0 = time.perf_counter()
        actions = np.random.randint(ACTIONS, size=ENVS)
        greedy = np.random.rand() > max(0.05, 1 - iteration / 100)
        if greedy:
            with torch.no_grad():
                actions[:64] = online(torch.from_numpy(environments.state[:64])).argmax(1).numpy()
        buffer.append(environments.step(actions))
        acting += time.perf_counter() - t0
        for _ in range(2):
            s, a, r, n = sample(buffer)
            with torch.no_grad():
                goal = r + 0.97 * target(n).max(1).values
            value = online(s).gather(1, a[:, None]).squeeze(1)
            loss = nn.functional.smooth_l1_loss(value, goal.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if iteration % 20 == 0:
            target.load_state_dict(online.state_dict())
            print(f"iteration {iteration} loss {loss.item():.4f} rss {rss_mb():.0f} MB", flush=True)
        memory.append(rss_mb())
    total = time.perf_counter() - begin
    print(f"REPORT loop_s={total:.2f} steps={ITERATIONS} cpu_s={time.thread_time():.2f} acting_share={acting / total:.3f} "
          f"rss_mb_start={memory[2]:.0f} rss_mb_at_{CAPACITY + 10}={memory[CAPACITY + 10]:.0f} rss_mb_end={memory[-1]:.0f}")
    print("REPORT lost_s=0 share=0.0")


if __name__ == "__main__":
    main()
