"""Which module counts as the root. Argument: the shape of the model."""

from common import *


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


class Outer(nn.Module):
    """Like a LightningModule: nobody calls it, its own method calls its parts."""

    def __init__(self):
        super().__init__()
        self.inner, self.unused = Inner(), nn.Linear(1, 1)

    def forward(self, x):
        return self.inner(x)

    def training_step(self, x):
        return self.inner(x).sum()


class Recursive(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x, depth=3):
        return self(self.layer(x), depth - 1) if depth else x


def never_called():
    m = Outer()
    return m, m.training_step


def compiled_blocks():
    m = Outer()
    m.inner.layers = nn.Sequential(*[torch.compile(nn.Linear(8, 8), backend="eager") for _ in range(2)])
    return m, lambda x: m(x).sum()


def recursive():
    m = Recursive()
    return m, lambda x: m(x).sum()


def in_threads():
    from concurrent.futures import ThreadPoolExecutor

    m = Inner()
    pool = ThreadPoolExecutor(2)
    return m, lambda x: sum(pool.map(lambda part: m(part).sum(), (x, x)))


def teacher(m=None):
    m = m or Inner()
    wise = Teacher().eval()
    copy = Copy().eval()  # its parameters would train, but nobody trains them

    def loss(x):
        with torch.no_grad():
            target = wise(x) + copy(x)
        return (m(x) - target).square().sum()

    return m, loss


def teacher_of_ddp():
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return teacher(nn.parallel.DistributedDataParallel(Inner()))


class Teacher(Inner):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)


class Copy(Inner):
    pass


SHAPES = (never_called, compiled_blocks, recursive, in_threads, teacher, teacher_of_ddp)

if __name__ == "__main__":
    m, loss = {f.__name__: f for f in SHAPES}[sys.argv[1]]()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(8):
        loss(torch.randn(4, 8)).backward()
        o.step()
        o.zero_grad()
    say(title=type(m).__name__)
