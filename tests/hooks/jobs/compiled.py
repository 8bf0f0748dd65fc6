"""Compiled models, steps, optimizers: prints dynamo's counters and the weights for each. Argument "first": roots are hooked before.
Further arguments name the cases to run."""

import io
import warnings

import torch._dynamo as dynamo
import torch.distributed as dist
from common import *
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel as DDP

BACKEND = "aot_eager"
MADE = []
if OBSERVED:
    from stepscope import _native, trace_phase
else:
    _native, trace_phase = None, lambda name: contextlib.nullcontext()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def make():
    m = Net()
    MADE.append(m)
    if "first" in sys.argv and _native:
        from stepscope.hooks import forward

        forward.hook(m)
    return m, torch.optim.SGD(m.parameters(), 0.01)


def compiled(f, full=False):
    return torch.compile(f, backend=BACKEND, fullgraph=full)


def training(forward, optimizer):
    def step(x):
        forward(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def group():
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    return dist.group.WORLD


def model():
    m, o = make()
    return training(compiled(m, True), o)


def in_place():
    m, o = make()
    m.compile(backend=BACKEND, fullgraph=True)
    return training(m, o)


def function_that_calls_the_model():
    m, o = make()
    return training(compiled(lambda x: m(x) * 2, True), o)


def whole_step():
    m, o = make()
    return compiled(training(m, o))


def optimizer():
    m, o = make()
    f = compiled(lambda: o.step())

    def step(x):
        m(x).sum().backward()
        f()
        o.zero_grad()

    return step


def optimizer_and_scheduler():
    m, _ = make()
    o = torch.optim.Adam(m.parameters(), torch.tensor(0.01))
    s = torch.optim.lr_scheduler.StepLR(o, 2)

    @compiled
    def both():
        o.step()
        s.step()

    def step(x):
        m(x).sum().backward()
        both()
        o.zero_grad()

    return step


def scaled():
    m, o = make()
    s = torch.amp.GradScaler("cpu")

    @compiled
    def step(x):
        s.scale(m(x).sum()).backward()
        s.step(o)
        s.update()
        o.zero_grad()

    return step


def compiled_ddp():
    group()
    m, o = make()
    return training(compiled(DDP(m)), o)


def ddp_of_compiled():
    group()
    m, o = make()
    return training(DDP(compiled(m, True)), o)


def user_phase():
    m, o = make()

    @compiled
    def forward(x):
        with trace_phase("inner"):
            return m(x)

    return training(forward, o)


def loader_in_step():
    m, o = make()
    loader = torch.utils.data.DataLoader(torch.randn(8, 8), 4)

    @compiled
    def step(x):
        for batch in loader:
            m(batch).sum().backward()
            o.step()
            o.zero_grad()

    return step


def save_in_step():
    m, _ = make()

    @compiled
    def step(x):
        y = m(x).sum()
        torch.save(m.state_dict(), io.BytesIO())
        return y * 2

    return step


def compiled_autograd():
    m, o = make()

    def step(x):
        with dynamo.compiled_autograd._enable(torch.compile(backend=BACKEND)):
            m(x).sum().backward()
        o.step()
        o.zero_grad()

    return step


def functional_collective():
    import torch.distributed._functional_collectives as fc

    g = group()
    return compiled(lambda x: fc.wait_tensor(fc.all_reduce(x * 2, "sum", g)) + 1, True)


def plain_collective():
    group()

    @compiled
    def f(x):
        y = x * 2
        dist.all_reduce(y)
        return y + 1

    return f


def asynchronous_collective():
    group()

    @compiled
    def f(x):
        y = x * 2
        work = dist.all_reduce(y, async_op=True)
        z = x + 1
        work.wait()
        return y + z

    return f


CASES = [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == "__main__"]
WANTED = [a for a in sys.argv[1:] if a not in ("first", "late")]
for case in CASES:
    if isinstance(case, type) or case in (make, compiled, training, group) or (WANTED and case.__name__ not in WANTED):
        continue
    dynamo.reset()
    counters.clear()
    MADE.clear()
    torch.manual_seed(0)
    before = _native.counters() if _native else (0, 0, 0)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            step = case()
            for _ in range(5):
                step(torch.randn(4, 8))
        result = {
            "warnings": sorted({f"{w.category.__name__}: {str(w.message)[:200]}" for w in warned}),
            "graphs": counters["stats"].get("unique_graphs", 0),
            "breaks": sum(counters["graph_break"].values()),
            "recompiles": sum(counters["recompiles"].values()),
            "weights": digest(*MADE),
        }
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"[:300]}
    if _native:
        result["seen"] = [b - a for a, b in zip(before, _native.counters())]
    say(**{case.__name__: result})
