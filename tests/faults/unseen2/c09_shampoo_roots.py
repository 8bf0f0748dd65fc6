"""A second-order optimizer recomputes all its matrix roots in every tenth step.

What happens: a Shampoo-like optimizer keeps L = sum(G G^T) and R = sum(G^T G) per weight; every tenth step it takes
the inverse fourth roots of all of them by eigh, in the training thread, the same work on both ranks.  These steps
last several times as long as the nine between, on all ranks alike; nobody waits for anybody.
Who causes it: optimizer.step() of all ranks in steps 9, 19, 29 ...  What is lost: 15 to 50 % of the loop.
Right advice: roots less often (every 50-100 steps), smaller blocks, share the matrices among the ranks, spread them
over the steps, or compute them in the background.  Hardware, data and links are sound.
REPORT_FAULT=0: roots are taken every 100 steps.
"""
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

ROOT_EVERY = 10 if os.environ.get("REPORT_FAULT", "1") != "0" else 100
STEPS = 240


class Shampoo(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.9, root_every=10, eps=1e-4):
        super().__init__(params, dict(lr=lr, momentum=momentum, root_every=root_every, eps=eps))
        self.count = 0
        self.root_seconds = 0.0

    @staticmethod
    def inverse_root(matrix, eps):
        values, vectors = torch.linalg.eigh(matrix + eps * torch.eye(len(matrix)))
        return (vectors * values.clamp_min(eps).pow(-0.25)) @ vectors.T

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.count += 1
        for group in self.param_groups:
            for p in group["params"]:
                g, state = p.grad, self.state[p]
                if p.ndim == 2:
                    if not state:
                        state["L"], state["R"] = torch.zeros(p.shape[0], p.shape[0]), torch.zeros(p.shape[1], p.shape[1])
                        state["PL"], state["PR"] = torch.eye(p.shape[0]), torch.eye(p.shape[1])
                    if self.count % 5 == 0:
                        state["L"].addmm_(g, g.T)
                        state["R"].addmm_(g.T, g)
                    if self.count % group["root_every"] == 0:
                        t0 = time.perf_counter()
                        state["PL"] = self.inverse_root(state["L"], group["eps"])
                        state["PR"] = self.inverse_root(state["R"], group["eps"])
                        self.root_seconds += time.perf_counter() - t0
                    shaped = state["PL"] @ g @ state["PR"]
                    g = shaped * (g.norm() / (shaped.norm() + 1e-12))
                buffer = state.setdefault("momentum", torch.zeros_like(p))
                buffer.mul_(group["momentum"]).add_(g)
                p.add_(buffer, alpha=-group["lr"])
        return loss


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(384, 384), nn.SiLU(), nn.Linear(384, 384), nn.SiLU(), nn.Linear(384, 384), nn.SiLU(),
                        nn.Linear(384, 384), nn.SiLU(), nn.Linear(384, 16))
    model = DDP(net)
    optimizer = Shampoo(model.parameters(), root_every=ROOT_EVERY)
    teacher = torch.randn(384, 16)
    generator = torch.Generator().manual_seed(rank)
    dist.barrier()
    begin = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(384, 384, generator=generator)
        y = torch.tanh(x @ teacher / 20)

        def closure():
            optimizer.zero_grad()
            value = nn.functional.mse_loss(model(x), y)
            value.backward()
            return value

        loss = optimizer.step(closure)
        if rank == 0 and step % 30 == 0:
            print(f"{step:4d} {loss.item():.5f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank={rank} loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print(f"REPORT rank={rank} lost_s={optimizer.root_seconds:.2f} share={optimizer.root_seconds / total:.3f} (time in inverse_root)", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
