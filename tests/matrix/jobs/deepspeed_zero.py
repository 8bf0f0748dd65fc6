"""DeepSpeed's engine, accumulation 2, evaluation between. Argument: ZeRO stage. Alone or under a launcher."""

from facts import *

os.environ.setdefault("DS_ACCELERATOR", "cpu")
if "RANK" not in os.environ:
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        os.environ.update(
            RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(s.getsockname()[1])
        )

import deepspeed  # noqa: E402

stage = next(int(a) for a in sys.argv[1:] if a.isdigit())
torch.manual_seed(0)
net = Net()
engine, _, _, _ = deepspeed.initialize(
    model=net,
    optimizer=torch.optim.AdamW(net.parameters(), 1e-3),
    config={
        "train_micro_batch_size_per_gpu": 4,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "communication_data_type": "fp32",
        "steps_per_print": 10**9,
    },
    dist_init_required=True,
)
for epoch in range(2):
    engine.train()
    for x, y in torch.utils.data.DataLoader(Data(48), 4):
        engine.backward(net.note(F.mse_loss(engine(x), y)))
        engine.step()
    engine.eval()
    with torch.no_grad():
        for x, y in torch.utils.data.DataLoader(Data(12), 4):
            F.mse_loss(engine(x), y)
net.say(engine.global_steps)
leave()
