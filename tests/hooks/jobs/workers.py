"""Loaders whose workers are forked, spawned, served; one whose dataset raises. Prints what came out."""

from common import *
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Items(Dataset):
    def __init__(self, bad=None):
        self.bad = bad

    def __len__(self):
        return 32

    def __getitem__(self, i):
        if i == self.bad:
            raise KeyError("broken sample")
        return torch.full((8,), float(i))


class Stream(IterableDataset):
    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        yield from (torch.full((8,), float(i)) for i in range(info.id, 32, info.num_workers))


def total(loader):
    return sum(float(b.sum()) for b in loader)


if __name__ == "__main__":
    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for method in sys.argv[1:]:
        with section(method):
            say(**{method: total(DataLoader(Items(), 4, num_workers=2, multiprocessing_context=method))})
    with section("iterable"):
        say(iterable=total(DataLoader(Stream(), 4, num_workers=2)))
    with section("persistent"):
        loader = DataLoader(Items(), 4, num_workers=1, persistent_workers=True)
        say(persistent=[total(loader), total(loader)])
    with section("broken"):
        try:
            total(DataLoader(Items(bad=9), 4, num_workers=1))
        except KeyError as error:
            say(broken=str(error).strip().splitlines()[-1])
    for x in DataLoader(torch.randn(8, 8), 4):
        m(x).sum().backward()
        o.step()
