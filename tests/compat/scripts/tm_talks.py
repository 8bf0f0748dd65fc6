"""The names of the older versions and talks: decorators per phase and a model that is registered for layer figures."""

import time

import torch
from torch import nn
from traceml.decorators import trace_model_instance, trace_step, trace_timestep
from traceml.traceml_decorator import trace_timestep as older

assert older is trace_timestep


@trace_timestep("data_loading", use_gpu=False)
def load(step):
    time.sleep(0.003)
    return torch.randn(16, 32)


@trace_timestep("forward", use_gpu=True)
def forward(model, x):
    return model(x)


@trace_timestep("backward", use_gpu=True)
def backward(loss):
    loss.backward()


@trace_timestep("optimizer_step", use_gpu=True)
def update(optimizer):
    optimizer.step()
    optimizer.zero_grad()


model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
trace_model_instance(model, sample_layer_memory=True, trace_execution=True)
trace_model_instance(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    with trace_step(model):
        x = load(step)
        backward(forward(model, x).square().mean())
        update(optimizer)
print("DONE")
