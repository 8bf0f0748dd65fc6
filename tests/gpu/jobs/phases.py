"""A training loop whose phases put work of known length on the fake device."""

import time

from fake_device import STREAM, cuda, install, say, torch

fake, native = install()
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(32, 64)
captured_step = 12
for step in range(20):
    if step == captured_step:
        cuda.fake_cuda_capture(STREAM, 1)
    y = model(x)
    cuda.fake_cuda_work(STREAM, 3_000_000)  # 3 ms of forward work, and the loss
    loss = y.square().mean()
    handle = loss.register_hook(lambda g: cuda.fake_cuda_work(STREAM, 8_000_000))  # 8 ms of backward work
    loss.backward()
    handle.remove()
    fake.allocator.now["allocated"] += 1 << 20
    optimizer.step()
    if step == captured_step:
        cuda.fake_cuda_capture(STREAM, 0)
    time.sleep(0.02)
say(state=native.gpu_state(), memory_calls=fake.allocator.calls)
