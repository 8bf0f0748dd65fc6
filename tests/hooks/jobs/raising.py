"""The user's own exceptions inside every hooked path; then everything that must survive hooks on a module."""

import copy
import io
import pickle
import traceback

from common import *
from torch.utils.data import DataLoader


class Boom(Exception):
    pass


class BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        raise Boom("backward")


class BadOptimizer(torch.optim.SGD):
    word = "optimizer"

    def step(self, closure=None):
        raise Boom(self.word)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.fail = False

    def forward(self, x):
        if self.fail:
            raise Boom("forward")
        return self.layer(x)


m = Model()
o = torch.optim.SGD(m.parameters(), 0.01)
for _ in range(3):  # after these the root is hooked
    m(torch.randn(4, 8)).sum().backward()
    o.step()
    o.zero_grad()


def forward():
    m.fail = True
    try:
        m(torch.randn(4, 8))
    finally:
        m.fail = False


def backward():
    BadBackward.apply(m(torch.randn(4, 8))).sum().backward()


def closure():
    def f():
        raise Boom("closure")

    o.step(f)


def optimizer():
    BadOptimizer(m.parameters(), 0.1).step()


def loader():
    class Bad(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            raise Boom("loader")

    next(iter(DataLoader(Bad())))


def saving():
    class Bad:
        def __reduce__(self):
            raise Boom("saving")

    torch.save(Bad(), io.BytesIO())


def scaler():
    s = torch.amp.GradScaler("cpu")
    s.scale(m(torch.randn(4, 8)).sum()).backward()
    bad = BadOptimizer(m.parameters(), 0.1)
    bad.word = "scaler"
    s.step(bad)


def phase():
    with section("inner"):
        raise Boom("phase")


results = {}
for f in (forward, backward, closure, optimizer, loader, saving, scaler, phase):
    with section(f.__name__):
        try:
            f()
            results[f.__name__] = "nothing raised"
        except Boom as error:
            frames = [fr.name for fr in traceback.extract_tb(error.__traceback__)]
            results[f.__name__] = f"{error}" if f.__name__ in frames else f"lost traceback {frames}"
say(**results)
m(torch.randn(4, 8)).sum().backward()  # depth counters are whole again
o.step()

x = torch.randn(2, 8)
wanted = m(x)
buffer = io.BytesIO()
torch.save(m, buffer)
buffer.seek(0)
same = lambda other: bool(torch.equal(other(x), wanted))
say(
    hooks=len(m._forward_pre_hooks),
    deepcopy=same(copy.deepcopy(m)),
    pickle=same(pickle.loads(pickle.dumps(m))),
    saved=same(torch.load(buffer, weights_only=False)),
    imports_us=b"stepscope" in pickle.dumps(m),
    traced=same(torch.jit.trace(m, x)),
    scripted=same(torch.jit.script(nn.Sequential(nn.Linear(8, 8), m))(x) is not None and torch.jit.script(m)),
    hooks_after=len(m._forward_pre_hooks),
)
with section("hooks removed by the user"):
    m._forward_pre_hooks.clear()
    m._forward_hooks.clear()
    m(torch.randn(4, 8)).sum().backward()
    o.step()
if "die" in sys.argv:
    raise ValueError("NaN loss in batch 150\nsecond line")
