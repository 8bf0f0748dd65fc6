"""Training loops of every shape, one after the other; each in a section of its name. Prints steps wanted and weights.
Arguments name the loops to run, none = all."""

import torch.nn.functional as F
from common import *
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
DATA = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))


def plain():
    m = net()
    o = torch.optim.AdamW(m.parameters())
    for x, y in DataLoader(DATA, 4):
        F.mse_loss(m(x), y).backward()
        nn.utils.clip_grad_norm_(m.parameters(), 1)
        o.step()
        o.zero_grad()
    return 16, m


def accumulation():
    m = net()
    o = torch.optim.AdamW(m.parameters())
    n = 0
    for i, (x, y) in enumerate(DataLoader(DATA, 4)):
        (F.mse_loss(m(x), y) / 3).backward()
        if i % 3 == 2 or i == 15:
            o.step()
            o.zero_grad()
            n += 1
    return n, m


def gan():
    g, d = net(), nn.Sequential(nn.Linear(1, 8), nn.Linear(8, 1))
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for x, y in DataLoader(DATA, 4):
        f = g(x)
        (d(y).mean() - d(f.detach()).mean()).backward()
        od.step()
        od.zero_grad()
        d(f).mean().backward()
        og.step()
        og.zero_grad()
        od.zero_grad()
    return 16, g


def critic_five_to_one():
    g, d = net(), nn.Sequential(nn.Linear(1, 8), nn.Linear(8, 1))
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
    for i, (x, y) in enumerate(DataLoader(DATA, 4)):
        f = g(x).detach().requires_grad_()
        penalty = torch.autograd.grad(d(f).sum(), f, create_graph=True)[0].pow(2).mean()
        (d(y).mean() - d(f).mean() + penalty).backward()
        od.step()
        od.zero_grad()
        if i % 5 == 4:
            d(g(x)).mean().backward()
            og.step()
            og.zero_grad()
    return 16, d


def lbfgs():
    m = net()
    o = torch.optim.LBFGS(m.parameters(), max_iter=4)
    for x, y in DataLoader(DATA, 8):

        def closure():
            o.zero_grad()
            loss = F.mse_loss(m(x), y)
            loss.backward()
            return loss

        o.step(closure)
    return 8, m


def amp_skipped():
    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    s = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    for i, (x, y) in enumerate(DataLoader(DATA, 4)):
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.mse_loss(m(x), y)
        if i in (3, 7):
            loss = loss * float("inf")
        s.scale(loss).backward()
        s.unscale_(o)
        nn.utils.clip_grad_norm_(m.parameters(), 1)
        s.step(o)
        s.update()
        o.zero_grad()
    return 16, m


def optimizer_in_backward():
    m = net()
    own = {p: torch.optim.SGD([p], 0.01) for p in m.parameters()}
    for p in m.parameters():
        p.register_post_accumulate_grad_hook(lambda p: (own[p].step(), own[p].zero_grad())[1])
    for x, y in DataLoader(DATA, 4):
        F.mse_loss(m(x), y).backward()
    return 16, m


def two_optimizers_and_validation():
    m = net()
    o1, o2 = torch.optim.SGD(m[0].parameters(), 0.01), torch.optim.AdamW(m[2].parameters())
    n = 0
    for _ in range(2):
        for x, y in DataLoader(DATA, 4):
            F.mse_loss(m(x), y).backward()
            o1.step()
            o2.step()
            m.zero_grad()
            n += 1
        m.eval()
        with torch.no_grad():
            for x, y in DataLoader(DATA, 16):
                F.mse_loss(m(x), y)
        m.train()
    return n, m


def sub_groups():
    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    parameters = list(m.parameters())
    for x, y in DataLoader(DATA, 4):
        F.mse_loss(m(x), y).backward()
        for p in parameters:
            o.param_groups[0]["params"] = [p]
            o.step()
        m.zero_grad()
    return 16, m


def rollouts():
    m = net()
    o = torch.optim.Adam(m.parameters())
    n = 0
    for _ in range(4):
        with torch.no_grad():
            [m(torch.randn(4, 8)) for _ in range(10)]
        for _ in range(2):
            for x, y in DataLoader(DATA, 32):
                F.mse_loss(m(x), y).backward()
                m(x).mean().backward()
                o.step()
                o.zero_grad()
                n += 1
    return n, m


def hand_written_sgd():
    m = net()
    for x, y in DataLoader(DATA, 4):
        F.mse_loss(m(x), y).backward()
        with torch.no_grad():
            [p.sub_(0.01 * p.grad) for p in m.parameters()]
        m.zero_grad()
    return 16, m


def checkpointed():
    from torch.utils.checkpoint import checkpoint

    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for i, (x, y) in enumerate(DataLoader(DATA, 4)):
        out = checkpoint(m, x.requires_grad_(), use_reentrant=i % 2 == 0)
        F.mse_loss(out, y).backward()
        o.step()
        o.zero_grad()
    return 16, m


def functional():
    from torch.func import functional_call, grad

    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for x, y in DataLoader(DATA, 4):
        g = grad(lambda p: F.mse_loss(functional_call(m, p, (x,)), y))({k: v.detach() for k, v in m.named_parameters()})
        for k, p in m.named_parameters():
            p.grad = g[k]
        o.step()
    return 16, m


def double_backward():
    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for x, y in DataLoader(DATA, 4):
        loss = F.mse_loss(m(x), y)
        loss.backward(retain_graph=True)
        loss.backward()
        o.step()
        o.zero_grad()
    return 16, m


def scheduled():
    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    s = torch.optim.lr_scheduler.StepLR(o, 4)
    for x, y in DataLoader(DATA, 4):
        F.mse_loss(m(x), y).backward()
        o.step()
        s.step()
        o.zero_grad()
    return 16, m


LOOPS = [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == "__main__"]
for loop in LOOPS:
    if sys.argv[1:] and loop.__name__ not in sys.argv:
        continue
    torch.manual_seed(1)
    with section(loop.__name__):
        wanted, model = loop()
    say(**{loop.__name__: [wanted, digest(model)]})
