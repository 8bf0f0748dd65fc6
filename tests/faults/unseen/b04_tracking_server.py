# b04_tracking_server: rank 0 sends each step's metrics to a slow tracking server and waits for the acknowledgement; MLP
#
# TRUTH: {'kind': ['logging-stall'], 'cause': ['synchronous logging on rank 0', 'logging handler waits for network / fsync'], 'rank': 0, 'phase': 'logging (after the optimizer, between steps)', 'first_step': 0, 'lost_share': [0.15, 0.45], 'must_not': ['comm-bound', 'compute-straggler', 'input-straggler', 'load-imbalance', 'input-bound', 'gc-pause', 'checkpoint-stall', 'cpu-contention']}
#
# What happens: Rank 0 logs per step through `logging`: one handler flushes and fsyncs a file, another sends the record to a tracking server that acknowledges after 25 ms; rank 1 spends the same time in the next all-reduce.
# Advice: Log every N steps or from a background queue (QueueHandler); the network and rank 1 are fine.
#
# Source:  wandb/wandb#950 (posix.fsync dominates), wandb/wandb#8666 (wandb.log blocks the training loop)
# Launch:  torchrun --nproc-per-node 2 b04_tracking_server.py
# Control: REPORT_FAULT=0: rank 0 logs every 50 steps
import logging, multiprocessing, os, socket, statistics, tempfile, time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

FAULT = os.environ.get("REPORT_FAULT", "1") != "0"
RANK, WORLD = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))


class Meter:
    """What the job itself measures: wall and own-thread CPU time per step, and named pieces of work (ms)."""

    def __init__(self):
        self.life, self.last, self.wall, self.cpu, self.parts = time.perf_counter(), None, [], [], {}

    def tick(self):
        now = time.perf_counter(), time.thread_time()
        if self.last:
            self.wall.append(1e3 * (now[0] - self.last[0]))
            self.cpu.append(1e3 * (now[1] - self.last[1]))
        self.last = now

    def add(self, name, begun):
        self.parts.setdefault(name, []).append(1e3 * (time.perf_counter() - begun))

    def report(self, split=None, **more):
        line = f"REPORT fault={int(FAULT)} rank={RANK} steps={len(self.wall)} loop_s={sum(self.wall) / 1e3:.1f} "
        line += f"wall_median_ms={statistics.median(self.wall):.1f} wall_mean_ms={statistics.mean(self.wall):.1f} "
        line += f"own_cpu_median_ms={statistics.median(self.cpu):.1f} own_cpu_mean_ms={statistics.mean(self.cpu):.1f}"
        if split and split < len(self.wall) - 1:
            line += f" before_{split}_median_ms={statistics.median(self.wall[1:split]):.1f} after_{split}_median_ms={statistics.median(self.wall[split:]):.1f}"
        for name, ms in self.parts.items():
            line += f" {name}_n={len(ms)} {name}_median_ms={statistics.median(ms):.1f} {name}_total_s={sum(ms) / 1e3:.2f}"
        print(line + "".join(f" {k}={v}" for k, v in more.items()), flush=True)


def finish():
    time.sleep(0.3)
    dist.destroy_process_group()
    time.sleep(0.3)


STEPS, BATCH, DIM, HIDDEN = 160, 448, 128, 1024
STEPS = int(os.environ.get("REPORT_STEPS", STEPS))
log = logging.getLogger("train")


def tracking_server(listening):
    peer, _ = listening.accept()
    while peer.recv(65536):
        time.sleep(0.025)
        peer.sendall(b"ok")


class Durable(logging.FileHandler):
    def emit(self, record):
        super().emit(record)
        self.flush()
        os.fsync(self.stream.fileno())


class Tracking(logging.Handler):
    def __init__(self, port):
        super().__init__()
        self.peer = socket.create_connection(("127.0.0.1", port))

    def emit(self, record):
        self.peer.sendall(self.format(record).encode())
        self.peer.recv(2)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    server = None
    if RANK == 0:
        listening = socket.create_server(("127.0.0.1", 0))
        server = multiprocessing.get_context("fork").Process(target=tracking_server, args=(listening,), daemon=True)
        server.start()
        log.setLevel(logging.INFO)
        log.addHandler(Durable(os.path.join(tempfile.mkdtemp(), "train.log")))
        log.addHandler(Tracking(listening.getsockname()[1]))
    dist.init_process_group("gloo")
    net = nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10))
    model = DDP(net)
    opt = torch.optim.SGD(model.parameters(), 0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(opt, STEPS)
    meter, g = Meter(), torch.Generator().manual_seed(RANK)
    for step in range(STEPS):
        meter.tick()
        x = torch.randn(BATCH, DIM, generator=g)
        opt.zero_grad()
        loss = F.cross_entropy(model(x), x[:, :10].argmax(1))
        loss.backward()
        opt.step()
        schedule.step()
        if RANK == 0 and (FAULT or step % 50 == 49):
            begun = time.perf_counter()
            norms = " ".join(f"{n}={p.grad.norm():.4f}" for n, p in net.named_parameters())
            log.info("step %d loss %.4f lr %.5f %s", step, loss, schedule.get_last_lr()[0], norms)
            meter.add("log", begun)
    meter.tick()
    meter.report()
    finish()
    if server:
        server.terminate()


if __name__ == "__main__":
    main()
