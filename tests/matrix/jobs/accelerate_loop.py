"""Accelerate's own loop: accumulation, clipping, bf16 autocast, evaluation between epochs. Argument "fsdp": sharded by FSDP."""

import accelerate
from facts import *

SHARDED = "fsdp" in sys.argv
plugin = accelerate.FullyShardedDataParallelPlugin(fsdp_version=2) if SHARDED else None
accelerate.utils.set_seed(0)
accelerator = accelerate.Accelerator(
    cpu=True,
    gradient_accumulation_steps=4,
    mixed_precision="no" if SHARDED else "bf16",
    fsdp_plugin=plugin,
)
if SHARDED:  # offered on accelerators only: its own code for them runs on gloo as well
    accelerator.state.distributed_type, accelerator.state.fsdp_plugin = accelerate.DistributedType.FSDP, plugin
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
model, optimizer, training, held_out = accelerator.prepare(
    net, optimizer, torch.utils.data.DataLoader(Data(), 4), torch.utils.data.DataLoader(Data(12), 4)
)
net = model if hasattr(model, "note") else model.module
steps = 0
for _ in range(2):
    model.train()
    for x, y in training:
        with accelerator.accumulate(model):
            loss = net.note(F.mse_loss(model(x), y))
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            steps += accelerator.sync_gradients
    model.eval()
    with torch.no_grad():
        for x, y in held_out:
            F.mse_loss(model(x), y)
net.say(steps)
leave()
