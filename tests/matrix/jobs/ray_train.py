"""Ray Train: two workers, DDP made by prepare_model, loader by prepare_data_loader. Facts go through files: Ray mixes output."""

import tempfile

from facts import *

os.environ.update(
    RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0", RAY_TRAIN_V2_ENABLED=os.environ.get("RAY_TRAIN_V2_ENABLED", "1")
)
import ray  # noqa: E402
import ray.train  # noqa: E402
import ray.train.torch  # noqa: E402


def loop(config):
    sys.path[:0] = [p for p in config["path"] if p not in sys.path]
    from facts import Data, F, Net, torch

    torch.manual_seed(0)
    net = Net()
    model = ray.train.torch.prepare_model(net)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    training = ray.train.torch.prepare_data_loader(torch.utils.data.DataLoader(Data(), 4))
    held_out, steps = torch.utils.data.DataLoader(Data(12), 4), 0
    for _ in range(2):
        model.train()
        for x, y in training:
            net.note(F.mse_loss(model(x), y)).backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
        model.eval()
        with torch.no_grad():
            for x, y in held_out:
                F.mse_loss(net(x), y)
    rank = ray.train.get_context().get_world_rank()
    between = round(1000 * (net.slept_last - net.slept_first))
    facts = {"steps": steps, "losses": net.losses.hexdigest(), "batches": net.trained, "validation_ms": between}
    with open(f"{config['folder']}/{rank}.json", "w", encoding="utf-8") as file:
        json.dump(facts, file)
    ray.train.report({"loss": 0.0})


with tempfile.TemporaryDirectory() as folder:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    trainer = ray.train.torch.TorchTrainer(
        loop,
        train_loop_config={"folder": folder, "path": [os.path.dirname(os.path.abspath(__file__))]},
        scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=False),
        torch_config=ray.train.torch.TorchConfig(backend="gloo"),
        run_config=ray.train.RunConfig(storage_path=folder, name="matrix"),
    )
    trainer.fit()
    for rank in range(2):
        with open(f"{folder}/{rank}.json", encoding="utf-8") as file:
            print("JSON " + json.dumps({f"rank{rank}": json.load(file)}), flush=True)
    ray.shutdown()
