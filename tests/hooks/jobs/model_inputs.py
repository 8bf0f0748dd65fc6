"""A forward for each kind of input whose elements the recorder can count, and for some that it cannot."""

from common import *
from shapes import BATCHES, Strange


class Takes(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, *inputs, **named):
        return self.weight.sum()


INPUTS = {
    **{name: (batch,) for name, batch in BATCHES.items()},
    "seeds_and_neighbours": (torch.zeros(32, dtype=torch.int64), torch.zeros(900, dtype=torch.int64), None, 3),
    "list_of_graphs": ([{"x": torch.zeros(5, 4)}, torch.zeros(7)],),
    "too_deep": ([[[torch.zeros(4)]]],),
    "many": tuple(torch.zeros(2) for _ in range(1000)),
    "strange_and_more": (Strange(), torch.zeros(6)),
}

if __name__ == "__main__":
    m = Takes()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(4):  # by then the root is known
        m(torch.zeros(1)).backward()
        o.step()
    for name, inputs in INPUTS.items():
        with section(name):
            m(*inputs)
    with section("by_name"):
        m(x=torch.zeros(3))
    m(torch.zeros(1)).backward()
    o.step()
