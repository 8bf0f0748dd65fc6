"""Healthy: functional training with torch.func, without an optimizer object, a module call or backward().

What happens: parameters are a dictionary, grad_and_value(functional_call) gives gradients, and a comprehension makes the new
dictionary.  All of the time is the model's arithmetic.  One process.
Who causes it: nobody.  What is lost: nothing.  Right advice: leave it alone.
REPORT_FAULT has no effect.
"""
import time

import torch
from torch import nn
from torch.func import functional_call, grad_and_value

STEPS, BATCH = 400, 512

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 4))
    weights = {k: v.detach() for k, v in net.named_parameters()}
    velocity = {k: torch.zeros_like(v) for k, v in weights.items()}
    teacher = torch.randn(64, 4) / 8

    def objective(w, x, y):
        return nn.functional.mse_loss(functional_call(net, w, (x,)), y)

    step_fn = grad_and_value(objective)
    begin = time.perf_counter()
    for step in range(STEPS):
        x = torch.randn(BATCH, 64)
        grads, loss = step_fn(weights, x, torch.tanh(x @ teacher))
        velocity = {k: 0.9 * v + grads[k] for k, v in velocity.items()}
        weights = {k: w - 0.02 * velocity[k] for k, w in weights.items()}
        if step % 50 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
    total = time.perf_counter() - begin
    print(f"REPORT rank=0 loop_s={total:.2f} steps={STEPS} cpu_s={time.thread_time():.2f}", flush=True)
    print("REPORT rank=0 lost_s=0 share=0.0", flush=True)
