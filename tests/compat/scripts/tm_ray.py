"""Ray Train with TraceML's trainer and configuration: two workers on the CPU."""

import sys

import ray
from ray.train import RunConfig, ScalingConfig
from traceml_ai.integrations.ray import TraceMLRayConfig, TraceMLTorchTrainer


def train_loop_per_worker(config):
    import ray.train.torch
    import torch
    import traceml_ai as traceml
    from torch import nn

    model = ray.train.torch.prepare_model(nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(config["steps"]):
        with traceml.trace_step(model):
            optimizer.zero_grad()
            model(torch.randn(8, 16)).square().mean().backward()
            optimizer.step()


ray.init(num_cpus=3, include_dashboard=False, logging_level="ERROR")
trainer = TraceMLTorchTrainer(
    train_loop_per_worker,
    train_loop_config={"steps": 30},
    scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
    run_config=RunConfig(storage_path=sys.argv[1]),
    traceml_config=TraceMLRayConfig(mode="summary"),
)
trainer.fit()
print("DONE")
ray.shutdown()
