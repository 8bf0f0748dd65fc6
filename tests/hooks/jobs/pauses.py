"""Garbage collections, saves and compilations, in sections."""

import gc
import io
import tempfile

import torch._dynamo as dynamo
import torch.distributed.checkpoint as dcp
from common import *

m = net(256)
o = torch.optim.SGD(m.parameters(), 0.01)


def train(forward=None, n=2):
    for _ in range(n):
        (forward or m)(torch.randn(4, 8)).sum().backward()
        o.step()
        o.zero_grad()


train()
with section("gc"):
    keep = [[i] for i in range(200_000)]
    gc.collect()
    del keep
with tempfile.TemporaryDirectory() as folder:
    with section("torch_save"):
        torch.save(m.state_dict(), f"{folder}/a.pt")
        say(bytes=os.path.getsize(f"{folder}/a.pt"))
    with section("to_buffer"):
        torch.save(m.state_dict(), io.BytesIO())
    with section("distributed"):
        dcp.save(m.state_dict(), checkpoint_id=f"{folder}/dcp", no_dist=True)
    with section("failing"):
        try:
            torch.save(m.state_dict(), f"{folder}/no/such/folder/a.pt")
        except RuntimeError:
            say(failing="raised")
    try:
        from safetensors.torch import save_file

        with section("safetensors"):
            save_file(m.state_dict(), f"{folder}/a.safetensors")
        say(safetensors=True)
    except ImportError:
        pass
    state = torch.load(f"{folder}/a.pt")
    say(same=all(torch.equal(state[k], v) for k, v in m.state_dict().items()))
with section("compile"):
    c = torch.compile(m, backend="aot_eager", dynamic=False)
    train(c)
with section("recompile"):
    c(torch.randn(5, 8)).sum().backward()
with section("after_reset"):
    dynamo.reset()
    train(c)
