"""Functions that use the replaced methods, compiled; says graphs, breaks and results. Argument "bare": nothing replaced."""

import sys

from fake_device import install, say, torch

if sys.argv[1] != "bare":
    _, native = install()
    assert native.gpu_try_start()

import torch._dynamo as dynamo


def moves(x):
    y = x.to(torch.float64) * 2
    y = y.to("cpu").to(device="cpu")
    z = torch.ones(3).copy_(x[:3])
    return y.sum() + z.sum()


def asks(x):
    if x.sum() > 0:
        x = x + 1
    return x.cpu() + x.sum().item() + float(x.mean()) + len(x.tolist()) + int(x[0]) + x.nonzero().shape[0]


facts = {}
for function in (moves, asks):
    explained = dynamo.explain(function)(torch.ones(8))
    facts[function.__name__] = [explained.graph_count, explained.graph_break_count]
    dynamo.reset()
facts["results"] = [
    float(torch.compile(moves, backend="eager", fullgraph=True)(torch.ones(8))),
    torch.compile(asks, backend="eager")(torch.ones(8)).tolist(),
]
facts["fx"] = torch.fx.symbolic_trace(lambda x: x.to(torch.float16).cpu()).code
facts["vmap"] = torch.func.vmap(lambda x: x.to(torch.float64) + 1)(torch.ones(3)).tolist()


@torch.jit.script
def scripted(x: torch.Tensor):
    return x.to(torch.float64).cpu().sum().item()


facts["jit"] = scripted(torch.ones(3))
say(**facts)
