"""Training in several threads, one model each: at the same time, then one thread after the other."""

import threading

from common import *

STEPS = 100
start = threading.Barrier(4)


class Slow(torch.autograd.Function):
    """Lets other threads run in the middle of a backward."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        time.sleep(0.0005)
        return g


def train(steps, together=True):
    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    if together:
        start.wait()
    for _ in range(steps):
        o.zero_grad()
        Slow.apply(m(torch.randn(4, 8))).sum().backward()
        o.step()


def run(*threads):
    for t in threads:
        t.start()
    for t in threads:
        t.join()


import time  # noqa: E402

if "together" in sys.argv:
    run(*(threading.Thread(target=train, args=(STEPS,)) for _ in range(4)))
if "in_turn" in sys.argv:
    for _ in range(4):
        run(threading.Thread(target=train, args=(25, False)))
if "checkpoint" in sys.argv:
    from torch.utils.checkpoint import checkpoint

    m = net()
    o = torch.optim.SGD(m.parameters(), 0.01)
    for _ in range(20):
        for reentrant in (True, False):
            x = torch.randn(4, 8, requires_grad=True)
            checkpoint(m, x, use_reentrant=reentrant).sum().backward()
        o.step()
say(done=True)
