"""One fetch of each kind of batch that the recorder can read, and of some that it cannot."""

from collections import UserDict

from common import *
from torch.utils.data import DataLoader


class Sub(torch.Tensor):
    pass


class Strange:
    def __getattr__(self, name):
        raise RuntimeError("nobody may ask me for " + name)


BATCHES = {
    "tensor": torch.zeros(6, 3),
    "pair": (torch.zeros(5, 3), torch.zeros(5)),
    "nested": [[torch.zeros(4, 2), torch.zeros(4)], torch.zeros(4)],
    "ids": torch.zeros(3, 128, dtype=torch.int64),
    "dict": {"pixel_values": torch.zeros(7, 3, 4, 4), "labels": torch.zeros(7, dtype=torch.int64)},
    "tokens": {"labels": torch.zeros(9), "input_ids": torch.zeros(2, 64, dtype=torch.int64)},
    "encoding": UserDict({"input_ids": torch.zeros(2, 32, dtype=torch.int64)}),
    "scalar": torch.zeros(()),
    "empty": [],
    "text": ["a", "b"],
    "subclass": torch.zeros(8, 2).as_subclass(Sub),
    "strange": Strange(),
    "number": 3,
}

if __name__ == "__main__":
    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for name, batch in BATCHES.items():
        with section(name):
            for got in DataLoader([0], collate_fn=lambda _: batch):
                say(**{name: got is batch})
    o.step()
