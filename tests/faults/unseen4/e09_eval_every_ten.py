"""An image classifier whose trainer evaluates the whole validation set after every tenth step.

What happens: eval_steps was copied from a small example. The weights and their moving average are both evaluated on 12
batches each time, about as long as the ten steps between.
Who causes it: the trainer, after steps 9, 19, 29 ...  What is lost: the share of the evaluation, half of the loop and
more.
Right advice: evaluate less often or on a part, only the average, with larger batches; the training step itself is
sound.
REPORT_FAULT=0: one evaluation, at the end.
"""
import copy
import dataclasses
import os
import statistics
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclasses.dataclass
class Arguments:
    max_steps: int = 120
    eval_steps: int = 10 if os.environ.get("REPORT_FAULT", "1") != "0" else 120
    batch: int = 24
    learning_rate: float = 1e-3
    ema: float = 0.99


def conv_net(width=32):
    def block(inside, outside):
        return nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.BatchNorm2d(outside), nn.ReLU())
    return nn.Sequential(block(3, width), block(width, width), nn.MaxPool2d(2), block(width, 2 * width),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


class Trainer:
    def __init__(self, model, arguments, train_set, eval_set):
        self.model, self.arguments = model, arguments
        self.average = copy.deepcopy(model).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.learning_rate)
        self.train_loader = DataLoader(train_set, arguments.batch, shuffle=True, drop_last=True)
        self.eval_loader = DataLoader(eval_set, arguments.batch)
        self.times, self.evaluating = [], 0.0

    def training_step(self, pictures, labels):
        loss = nn.functional.cross_entropy(self.model(pictures), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        with torch.no_grad():
            for slow, fast in zip(self.average.state_dict().values(), self.model.state_dict().values()):
                if slow.is_floating_point():
                    slow.lerp_(fast, 1 - self.arguments.ema)
        return loss.detach()

    @torch.no_grad()
    def evaluate(self, model):
        model.eval()
        right = sum((model(pictures).argmax(1) == labels).sum().item() for pictures, labels in self.eval_loader)
        model.train()
        return right / len(self.eval_loader.dataset)

    def train(self):
        step, before = 0, time.perf_counter()
        while True:
            for pictures, labels in self.train_loader:
                loss = self.training_step(pictures, labels)
                step += 1
                if step % self.arguments.eval_steps == 0:
                    t0 = time.perf_counter()
                    plain, averaged = self.evaluate(self.model), self.evaluate(self.average)
                    self.evaluating += time.perf_counter() - t0
                    if step % 40 == 0:
                        print(f"step {step} loss {loss:.3f} accuracy {plain:.3f} averaged {averaged:.3f}", flush=True)
                now = time.perf_counter()
                self.times.append(now - before)
                before = now
                if step == self.arguments.max_steps:
                    return


def pictures(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (count,), generator=generator)
    noise = torch.randn(count, 3, 24, 24, generator=generator)
    return TensorDataset(noise + labels[:, None, None, None] / 5, labels)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trainer = Trainer(conv_net(), Arguments(), pictures(1200, 1), pictures(12 * 24, 2))
    begin = time.perf_counter()
    trainer.train()
    total = time.perf_counter() - begin
    median = 1e3 * statistics.median(trainer.times)
    print(f"REPORT loop_s={total:.2f} steps={len(trainer.times)} median_ms={median:.1f}", flush=True)
    lost = trainer.evaluating
    print(f"REPORT lost_s={lost:.2f} share={lost / total:.3f} (time in evaluate)", flush=True)


if __name__ == "__main__":
    main()
