"""A training that goes on for long and does everything a long training does; counts by itself what it did.

Each epoch of 100 steps has a new loader and, now and then, a group made and destroyed, an evaluation, a checkpoint,
exceptions out of every part of a step that are caught, and one that ends a thread. Prints ``SOAK {json}`` at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

threading.excepthook = lambda args: (
    None
)  # before torch, so that who watches chains it; tracebacks would fill the terminal

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

EPOCH_STEPS, BATCH = 100, 4
EVALUATION_BATCHES = 2


class Refused(Exception):
    """Raised on purpose."""


class Numbers(Dataset):
    def __init__(self, size: int) -> None:
        self.size, self.refuse = size, -1

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.refuse:
            raise Refused("a sample")
        return torch.full((16,), float(index % 7))


class RefusesBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        raise Refused("backward")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
        self.refuse = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.refuse:
            raise Refused("forward")
        return self.layers(x)


class Progress:
    """Process and steps of this rank in a file, for who follows a run that has no ring."""

    EVERY_STEPS = 1000

    def __init__(self, rank: int) -> None:
        folder = os.environ.get("SOAK_PROGRESS")
        self.path = Path(folder) / f"rank-{rank}" if folder else None

    def tell(self, steps: int) -> None:
        if self.path and steps % self.EVERY_STEPS == 0:
            self.path.write_text(f"{os.getpid()} {steps}")


class Soak:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.count, self.ms = options, Counter(), Counter()
        self.net = Model()
        self.model = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.folder = Path(tempfile.mkdtemp(prefix="ss-soak-job-"))
        self.progress = Progress(dist.get_rank())

    def run(self) -> None:
        for epoch in range(self.options.steps // EPOCH_STEPS):
            self.epoch(epoch)
            self.count["epochs"] += 1
            if epoch % 2 == 0:
                self.group(epoch)
            if epoch % 5 == 0:
                self.caught(epoch)
            if epoch % 10 == 0:
                self.evaluate()
            if epoch % 20 == 0:
                self.checkpoint()
            if epoch % 50 == 0:
                self.thread(epoch)

    def epoch(self, epoch: int) -> None:
        workers = 1 if epoch % 200 == 7 else 0
        for batch in DataLoader(Numbers(EPOCH_STEPS * BATCH), batch_size=BATCH, shuffle=True, num_workers=workers):
            self.optimizer.zero_grad()
            self.model(batch).square().mean().backward()
            self.optimizer.step()
            self.count["steps"] += 1
        self.progress.tell(self.count["steps"])

    def group(self, epoch: int) -> None:
        group = dist.new_group(list(range(dist.get_world_size())))
        dist.all_reduce(torch.ones(2), group=group)
        dist.destroy_process_group(group)
        self.count["groups"] += 1

    def caught(self, epoch: int) -> None:
        """An exception out of one part of a step after the other; none of these steps comes to its end."""
        part = (self.in_forward, self.in_backward, self.in_optimizer, self.in_loader)[epoch // 5 % 4]
        try:
            part()
        except Refused:
            self.count["caught_" + part.__name__] += 1
        self.optimizer.zero_grad()

    def in_forward(self) -> None:
        self.net.refuse = True
        try:
            self.net(torch.ones(BATCH, 16))
        finally:
            self.net.refuse = False

    def in_backward(self) -> None:
        RefusesBackward.apply(self.net(torch.ones(BATCH, 16))).mean().backward()

    def in_optimizer(self) -> None:
        def closure() -> None:
            raise Refused("closure")

        self.optimizer.step(closure)

    def in_loader(self) -> None:
        numbers = Numbers(EPOCH_STEPS * BATCH)
        numbers.refuse = 0
        next(iter(DataLoader(numbers, batch_size=BATCH)))

    def evaluate(self) -> None:
        begun = time.perf_counter()
        self.net.eval()
        with torch.no_grad():
            for batch in DataLoader(Numbers(EVALUATION_BATCHES * BATCH), batch_size=BATCH):
                self.net(batch).sum().item()
                time.sleep(0.001)
                self.count["evaluated"] += 1
        self.net.train()
        self.count["evaluations"] += 1
        self.ms["validation"] += (time.perf_counter() - begun) * 1e3

    def checkpoint(self) -> None:
        begun = time.perf_counter()
        torch.save({"model": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}, self.folder / "last.pt")
        self.ms["checkpoint"] += (time.perf_counter() - begun) * 1e3
        self.count["checkpoints"] += 1

    def thread(self, epoch: int) -> None:
        def dies() -> None:
            raise Refused(f"thread of epoch {epoch}")  # its text is new each time

        thread = threading.Thread(target=dies)
        thread.start()
        thread.join()
        self.count["thread_exceptions"] += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    soak = Soak(options)
    begun = time.perf_counter()
    soak.run()
    seconds = time.perf_counter() - begun
    said = {"rank": dist.get_rank(), "pid": os.getpid(), "seconds": seconds, "count": soak.count, "ms": soak.ms}
    dist.destroy_process_group()
    print("SOAK " + json.dumps(said), flush=True)
    time.sleep(1.5)  # the reader from outside sees the last records before the ring goes


if __name__ == "__main__":
    main()
