"""A common training script for any launcher: DDP where there are several ranks, loader workers, a validation epoch, and
unrelated Python children. Arguments: steps=12 workers=0 method=fork child=0 fail=-1 (raises there in the first attempt).
"""

import subprocess

import torch.distributed as dist
from facts import *

OPTIONS = {"steps": "12", "workers": "0", "method": "fork", "child": "0", "fail": "-1"}


def ranks():
    """(rank, world size) from whoever started us. mpirun says it its own way, and such scripts hand it to torch."""
    for rank, world in (
        ("RANK", "WORLD_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMI_RANK", "PMI_SIZE"),
    ):
        if rank in os.environ:
            return int(os.environ[rank]), int(os.environ[world])
    return 0, 1


def init_group(rank, world):
    """Where torchrun may start ranks anew, each attempt has keys of its own: else gloo connects to the ports that the
    attempt before left in the agent's store, with or without an observer."""
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    if os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
        store, rank, world = next(dist.rendezvous("env://"))
        dist.init_process_group(
            "gloo", store=dist.PrefixStore(f"attempt {attempt}", store), rank=rank, world_size=world
        )
    else:
        dist.init_process_group("gloo", **({} if "RANK" in os.environ else {"rank": rank, "world_size": world}))


def main():
    options = OPTIONS | dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
    steps, workers = int(options["steps"]), int(options["workers"])
    rank, world = ranks()
    if world > 1:
        init_group(rank, world)
    torch.manual_seed(0)
    net = Net()
    model = nn.parallel.DistributedDataParallel(net) if world > 1 else net
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    sampler = torch.utils.data.DistributedSampler(Data(32), world, rank, shuffle=False) if world > 1 else None
    how = {"num_workers": workers, "multiprocessing_context": options["method"]} if workers else {}
    training = torch.utils.data.DataLoader(Data(32), 4, sampler=sampler, **how)
    held_out = torch.utils.data.DataLoader(Data(12), 4)
    done = 0
    while done < steps:
        model.train()
        for x, y in training:
            if done == int(options["fail"]) and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
                raise RuntimeError("fails once, on purpose")
            net.note(F.mse_loss(model(x), y)).backward()
            optimizer.step()
            optimizer.zero_grad()
            done += 1
            if done == steps:
                break
        model.eval()
        with torch.no_grad():
            for x, y in held_out:
                F.mse_loss(net(x), y)
    if int(options["child"]):
        train = "import torch as t; p = t.nn.Parameter(t.ones(1)); o = t.optim.SGD([p]); [(p.sum().backward(), o.step()) for _ in range(50)]"
        subprocess.run([sys.executable, "-c", "print('no torch here')"], check=True)
        subprocess.run([sys.executable, "-c", train], check=True)
    os.environ.setdefault("RANK", str(rank))
    net.say(done)
    leave()


if __name__ == "__main__":
    main()
