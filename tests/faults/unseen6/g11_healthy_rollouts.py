"""Healthy: an actor and a critic, two optimizers, and play between the updates.

What looks like a fault: after every 28 updates the loop plays 12 moves in 128 games without a gradient, so that one step
in 28 comes later than the others; reward and loss wander; two optimizers take a step each.
What is true: the play is the data of the next updates and takes less than 5 % of the time; the updates take the same
time throughout.
Right advice: none; no loader, no pause, no schedule, no drift.
REPORT_FAULT=0: one play, all updates use it.
"""

import os
import statistics
import time

import torch
from torch import nn

REPLAY = os.environ.get("REPORT_FAULT", "1") == "0"
ROUNDS, EPOCHS, PARTS, GAMES, MOVES, WIDTH = 12, 14, 2, 128, 12, 320


def net(outputs):
    return nn.Sequential(
        nn.Linear(4, WIDTH),
        nn.Tanh(),
        nn.Linear(WIDTH, WIDTH),
        nn.Tanh(),
        nn.Linear(WIDTH, WIDTH),
        nn.Tanh(),
        nn.Linear(WIDTH, outputs),
    )


class Carts:
    """Many carts with a pole, in one tensor."""

    def __init__(self):
        self.state = 0.1 * torch.randn(GAMES, 4)

    def move(self, push):
        x, speed, angle, turn = self.state.unbind(1)
        force = 10 * push.clamp(-1, 1)
        bend = (force + 0.05 * turn.square() * angle.sin()) / 1.1
        spin = (9.8 * angle.sin() - bend * angle.cos()) / (0.5 * (4 / 3 - 0.1 * angle.cos().square() / 1.1))
        run = bend - 0.05 * spin * angle.cos() / 1.1
        self.state = torch.stack([x + 0.02 * speed, speed + 0.02 * run, angle + 0.02 * turn, turn + 0.02 * spin], 1)
        reward = 1 - angle.square() - 0.1 * self.state[:, 0].square()
        lost = (angle.abs() > 0.4) | (x.abs() > 2.4)
        self.state = torch.where(lost[:, None], 0.1 * torch.randn(GAMES, 4), self.state)
        return reward, lost


@torch.no_grad()
def play(carts, actor, critic, spread):
    states, pushes, likelihoods, rewards, ends = [], [], [], [], []
    for _ in range(MOVES):
        states.append(carts.state)
        chosen = torch.distributions.Normal(actor(carts.state).squeeze(1), spread)
        push = chosen.sample()
        reward, lost = carts.move(push)
        for kept, value in zip((pushes, likelihoods, rewards, ends), (push, chosen.log_prob(push), reward, lost)):
            kept.append(value)
    values = critic(torch.cat([*states, carts.state])).view(MOVES + 1, GAMES)
    returns, following = torch.empty(MOVES, GAMES), values[-1]
    for k in reversed(range(MOVES)):
        following = rewards[k] + 0.97 * following * ~ends[k]
        returns[k] = following
    advantage = returns - values[:-1]
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
    return [
        v.flatten(0, 1)
        for v in (torch.stack(states), torch.stack(pushes), torch.stack(likelihoods), advantage, returns)
    ]


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    actor, critic, spread = net(1), net(1), 0.5
    actor_optimizer = torch.optim.Adam(actor.parameters(), 3e-4)
    critic_optimizer = torch.optim.Adam(critic.parameters(), 1e-3)
    carts, memory, played = Carts(), None, 0.0
    durations, start, cpu = [], time.perf_counter(), time.process_time()
    for number in range(ROUNDS):
        began = time.perf_counter()
        if memory is None or not REPLAY:
            memory = play(carts, actor, critic, spread)
        played += time.perf_counter() - began
        for _ in range(EPOCHS):
            for part in torch.randperm(GAMES * MOVES).chunk(PARTS):
                began = time.perf_counter()
                states, pushes, before, advantage, returns = (v[part] for v in memory)
                now = torch.distributions.Normal(actor(states).squeeze(1), spread).log_prob(pushes)
                ratio = (now - before).exp()
                gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
                actor_optimizer.zero_grad()
                (-gain).backward()
                actor_optimizer.step()
                error = nn.functional.smooth_l1_loss(critic(states).squeeze(1), returns)
                critic_optimizer.zero_grad()
                error.backward()
                critic_optimizer.step()
                durations.append(time.perf_counter() - began)
        if number % 4 == 0:
            print(f"round {number} gain {gain.item():.4f} error {error.item():.3f}", flush=True)
    loop = time.perf_counter() - start
    print(
        f"loop {loop:.2f} s, CPU {time.process_time() - cpu:.2f} s, {len(durations)} updates, median "
        f"{1e3 * statistics.median(durations):.1f} ms, play {100 * played / loop:.1f} % of the loop"
    )


if __name__ == "__main__":
    main()
