"""The job of step_cost.py: one process that was injected, its hooks taken out and put back every block of steps.

Argument: plain, ddp, stamped (DDP with completion stamps), loader, hf (transformers' Trainer), lightning, gpu, gpu_ddp (one
process per GPU). Prints one line per clock.
"""

import gc
import os
import statistics
import struct
import sys
import tempfile
import time
import types

import torch
import torch.nn as nn
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import dataloader as loaders

from stepscope import _native as native

torch.set_num_threads(1)
KIND = sys.argv[1]
FRAMEWORK, GPU = KIND in ("hf", "lightning"), KIND.startswith("gpu")
PAIRS, SIZE = (240, 8) if FRAMEWORK else (40, 48) if GPU else (200, 48)
WARM_STEPS, WARM_PAIRS = 300, 10


def clocks():
    """The training thread's CPU time and, where the GPU has a part in it, the time on the wall, ns."""
    return (time.thread_time_ns(), time.perf_counter_ns()) if GPU else (time.thread_time_ns(),)


class Done(Exception):
    """All blocks were run."""


def plain_next(self):
    """DataLoader's own __next__, as torch 2.15 has it: what stood there is held by the native side."""
    with torch.autograd.profiler.record_function(self._profile_name):
        if self._sampler_iter is None:
            self._reset()
        data = self._next_data()
        self._num_yielded += 1
        return data


class Hooks:
    """All that is called in a step, put back and taken out."""

    def __init__(self):
        from stepscope.hooks import forward

        assert native.active() and native.counters()[2] > 100, native.counters()
        places = [optimizers._global_optimizer_pre_hooks, optimizers._global_optimizer_post_hooks]
        for known in forward._hooked.values():
            module = known[0]()
            if module is not None:
                places += [module._forward_pre_hooks, module._forward_hooks, module._forward_hooks_always_called]
        self.saved = [(live, dict(live)) for live in places]
        self.backward = ours = torch.autograd._engine_run_backward
        # What stands in for it answers for it in every attribute.
        self.plain_backward = types.FunctionType(
            ours.__code__, ours.__globals__, ours.__name__, ours.__defaults__, ours.__closure__
        )
        self.next = loaders._BaseDataLoaderIter.__dict__["__next__"]
        self.group = None
        if KIND in ("ddp", "stamped", "gpu_ddp") and hasattr(
            torch._C._distributed_c10d.ProcessGroup, "register_pre_hook"
        ):
            import torch.distributed as dist

            from stepscope.hooks import groups

            self.group, self.hook_id = dist.group.WORLD, groups._HOOK_ID
            known = groups._known[id(self.group)]
            self.pre, self.post = known.hooks
            assert bool(known.post) == (KIND == "stamped")

    def put(self, on):
        for live, kept in self.saved:
            live.clear()
            if on:
                live.update(kept)
        torch.autograd._engine_run_backward = self.backward if on else self.plain_backward
        torch.autograd.graph._engine_run_backward = torch.autograd._engine_run_backward
        loaders._BaseDataLoaderIter.__next__ = self.next if on else plain_next
        if self.group is not None:
            self.group.unregister_pre_hook(self.hook_id)
            if on:
                self.group.register_pre_hook(self.hook_id, self.pre)
        if KIND == "stamped":
            self.group.unregister_post_hook(self.hook_id)
            if on:
                self.group.register_post_hook(self.hook_id, self.post)


class Blocks:
    """Called after every step: times it, and changes the hooks between blocks. The first comparison warms up, the second
    is out against in, the third out against out."""

    def __init__(self):
        plan = [((False, True), WARM_PAIRS), ((False, True), PAIRS), ((False, False), PAIRS)]
        self.todo = [
            (n, i, which, arms[which])
            for n, (arms, pairs) in enumerate(plan)
            for i in range(pairs)
            for which in ((0, 1) if i % 2 else (1, 0))
        ]
        self.took = {}
        self.at, self.steps, self.block, self.hooks, self.last = -1, 0, [], None, clocks()

    def tick(self):
        now = clocks()
        self.steps += 1
        if self.steps <= WARM_STEPS:
            return
        if self.hooks is None:
            self.hooks = Hooks()
            gc.disable()
            self.next_block()
        else:
            self.block.append([b - a for a, b in zip(self.last, now)])
            if len(self.block) == SIZE:
                # The fastest quarter: what the machine does besides only adds. With a GPU the mean of all but the slowest
                # tenth: some of what we do there comes every few steps.
                self.took[self.todo[self.at][:3]] = [
                    (statistics.fmean(sorted(of)[: SIZE * 9 // 10]) if GPU else sorted(of)[SIZE // 4]) / 1e3
                    for of in zip(*self.block)
                ]
                self.next_block()
        self.last = clocks()

    def next_block(self):
        self.at += 1
        self.block = []
        if self.at == len(self.todo):
            raise Done
        self.hooks.put(self.todo[self.at][3])

    def figures(self, comparison, clock):
        added = [
            took[clock] - self.took[comparison, i, 0][clock]
            for (n, i, which), took in self.took.items()
            if n == comparison and which == 1
        ]
        base = [took[clock] for (n, _, which), took in self.took.items() if n == comparison and which == 0]
        return statistics.quantiles(added, n=4), statistics.median(base)


def small_steps(blocks):
    """Steps as small as torch allows."""
    model = nn.Linear(8, 8)
    if KIND in ("ddp", "stamped"):
        import torch.distributed as dist

        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x = torch.randn(4, 8)

    def batches():
        while True:
            if KIND == "loader":
                for (batch,) in DataLoader(TensorDataset(torch.randn(64, 8)), 4):
                    yield batch
            else:
                yield x

    for step, batch in enumerate(batches()):
        model(batch).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        if KIND == "stamped" and step == 100:
            with open(native.path(), "r+b") as box:  # as the agent asks: docs/formats/blackbox.md, control words
                box.seek(384)
                box.write(struct.pack("<Q", 1 << 62))
        blocks.tick()


def on_gpu(blocks):
    """Steps of some milliseconds, set by the host: many small kernels."""
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    model = nn.Sequential(
        *(nn.TransformerEncoderLayer(256, 8, 1024, dropout=0.0, batch_first=True, device=device) for _ in range(2))
    )
    if KIND == "gpu_ddp":
        import torch.distributed as dist

        dist.init_process_group("nccl", device_id=device)
        model = nn.parallel.DistributedDataParallel(model, device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    x = torch.randn(8, 64, 256, device=device)
    while True:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        blocks.tick()


def hf(blocks):
    import transformers

    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return 1 << 20

        def __getitem__(self, i):
            ids = torch.randint(0, 50, (16,), generator=torch.Generator().manual_seed(i % 64))
            return {"input_ids": ids, "labels": ids}

    class Tick(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            blocks.tick()

    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=50, n_positions=32, n_embd=16, n_layer=2, n_head=2)
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            max_steps=1 << 18,
            logging_steps=1 << 18,
            save_strategy="no",
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        )
        transformers.Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Tick()]).train()


def lightning(blocks):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 8)

        def training_step(self, batch, index):
            return self.net(batch[0]).sum()

        def on_train_batch_end(self, outputs, batch, index):
            blocks.tick()

        def configure_optimizers(self):
            return torch.optim.SGD(self.net.parameters(), 0.01)

    trainer = lightning.Trainer(
        max_steps=1 << 18,
        max_epochs=-1,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(TensorDataset(torch.randn(1 << 16, 8)), 4))


def main():
    blocks = Blocks()
    try:
        {"hf": hf, "lightning": lightning, "gpu": on_gpu, "gpu_ddp": on_gpu}.get(KIND, small_steps)(blocks)
    except Done:
        pass
    if os.environ.get("RANK", "0") != "0":
        return
    for clock, what in enumerate(("CPU", "wall")[: len(clocks())]):
        (q1, q2, q3), base = blocks.figures(1, clock)
        (z1, z2, z3), _ = blocks.figures(2, clock)
        print(
            f"{KIND:9} {what:4} bare step {base:7.1f} us; hooks add {q2:+.1f} us (quartiles {q1:+.1f} to {q3:+.1f}); "
            f"A/A {z2:+.1f} us ({z1:+.1f} to {z3:+.1f})",
            flush=True,
        )


main()
