"""A recurrent forecaster is written as a Python loop over time with every gate an operator of its own.

What happens: 96 time steps of a hand-made LSTM cell with four separate gates on a batch of 16 and a width of 24: some two
thousand operators of a few microseconds in the forward and twice as many in the backward.  Nearly all of the step is
Python and dispatch, hardly any arithmetic.  One process.
Who causes it: the model's code.  What is lost: half to nine tenths of the loop against nn.LSTM.
Right advice: nn.LSTM, one matrix product for the four gates, the input's products for all times at once, a larger batch, or
torch.compile; a faster device would not help, the input is ready.
REPORT_FAULT=0: nn.LSTM of the same size.
"""
import os
import time

import torch
from torch import nn

BY_HAND = os.environ.get("REPORT_FAULT", "1") != "0"
STEPS, BATCH, LENGTH, WIDTH = 520, 16, 96, 24


class Cell(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.gates = nn.ModuleDict({g: nn.Linear(inputs + width, width) for g in ("enter", "forget", "out", "value")})

    def forward(self, x, h, c):
        both = torch.cat([x, h], 1)
        enter = torch.sigmoid(self.gates["enter"](both))
        forget = torch.sigmoid(self.gates["forget"](both))
        out = torch.sigmoid(self.gates["out"](both))
        value = torch.tanh(self.gates["value"](both))
        c = forget * c + enter * value
        return out * torch.tanh(c), c


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.width = WIDTH
        if BY_HAND:
            self.cell = Cell(4, WIDTH)
        else:
            self.lstm = nn.LSTM(4, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x):
        if not BY_HAND:
            return self.head(self.lstm(x)[0])
        h = c = x.new_zeros(len(x), self.width)
        outputs = []
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], h, c)
            outputs.append(self.head(h))
        return torch.stack(outputs, 1)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    t = torch.arange(20000) / 10
    series = torch.stack([torch.sin(t), torch.cos(1.3 * t), torch.sin(0.31 * t) * torch.cos(t), torch.sin(2.1 * t)], 1)
    series = series + 0.05 * torch.randn_like(series)
    net = Forecaster()
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    begin = time.perf_counter()
    for step in range(STEPS):
        starts = torch.randint(len(series) - LENGTH - 1, (BATCH,)).tolist()
        x = torch.stack([series[s:s + LENGTH] for s in starts])
        y = torch.stack([series[s + 1:s + LENGTH + 1] for s in starts])
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        if step % 40 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank=0 loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f} ms_per_step={1e3 * total / STEPS:.1f}", flush=True)


if __name__ == "__main__":
    main()
