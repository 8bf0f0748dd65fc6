"""The smallest training. Environment: CHILD=1 starts a python child that imports torch; FORK=1 forks one that trains."""

import subprocess

from common import *

torch.manual_seed(0)
m = net()
o = torch.optim.SGD(m.parameters(), 0.01)


def steps(n):
    for _ in range(n):
        m(torch.randn(4, 8)).sum().backward()
        o.step()
        o.zero_grad()


def rank_main(rank, world, port):
    import torch.distributed as dist

    os.environ.pop("RANK", None)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world)
    steps(3)


if __name__ == "__main__":
    if "spawn" in sys.argv:
        import socket

        import torch.multiprocessing as mp

        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        mp.start_processes(rank_main, (2, port), nprocs=2, start_method=sys.argv[sys.argv.index("spawn") + 1])
    else:
        steps(3)
        if os.environ.get("CHILD"):
            subprocess.run([sys.executable, "-c", "import torch; print('child', torch.ones(1).item())"], check=True)
        if os.environ.get("FORK"):
            pid = os.fork()
            if pid == 0:
                steps(5)
                os._exit(0)
            os.waitpid(pid, 0)
            steps(1)
    say(digest=digest(m), site=[n for n in ("user_site_ran",) if hasattr(sys, n)])
