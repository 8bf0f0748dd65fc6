"""Things that programs make anew all the time, and that each have a name in the ring: loaders, groups, models."""

from common import *
from torch.utils.data import DataLoader, TensorDataset


def loaders(epochs):
    for epoch in range(epochs):
        train = TensorDataset(torch.randn(8, 8))
        for (x,) in DataLoader(train, 4, shuffle=True):
            m(x).sum().backward()
            o.step()
        if epoch % 10 == 0:
            with torch.no_grad():
                for (x,) in DataLoader(TensorDataset(torch.randn(8, 8)), 4, shuffle=True):
                    m(x)


def kept(epochs):
    """The data stays, the loaders do not; two look the same and serve different ends."""
    one, two = TensorDataset(torch.randn(8, 8)), TensorDataset(torch.randn(8, 8))
    for epoch in range(epochs):
        for data in (one, two) if epoch % 2 else (two, one):
            with section("one" if data is one else "two"):
                for _ in DataLoader(data, 4):
                    pass


def groups(count):
    import torch.distributed as dist

    dist.init_process_group("gloo")
    ranks = list(range(dist.get_world_size()))
    dist.all_reduce(torch.ones(1))
    for _ in range(count):
        group = dist.new_group(ranks)
        for _ in range(3):
            dist.all_reduce(torch.ones(1), group=group)
        dist.destroy_process_group(group)
    first, second = dist.new_group(ranks), dist.new_group(ranks)
    with section("two groups"):
        dist.all_reduce(torch.ones(1), group=first)
        dist.all_reduce(torch.ones(1), group=second)
    step()
    dist.destroy_process_group()


def step():
    m(torch.randn(4, 8)).sum().backward()
    o.step()


m = net()
o = torch.optim.SGD(m.parameters(), 0.01)
what, count = sys.argv[1], int(sys.argv[2])
if what == "loaders":
    loaders(count)
if what == "kept":
    for _ in range(3):
        step()
    kept(count)
if what == "groups":
    groups(count)
if what == "models":
    for _ in range(count):
        m = net()
        o = torch.optim.SGD(m.parameters(), 0.01)
        for _ in range(2):
            step()
if what == "exception":
    for i in range(4000):
        with section(f"a phase that is never said again, number {i}"):
            pass
    step()
    raise ValueError("the last word")
say(done=True)
