"""What the jobs share. They know stepscope only through optional marks that tell the test which loop runs."""

import contextlib
import hashlib
import json
import os
import sys
import warnings

warnings.simplefilter("ignore")

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402

torch.set_num_threads(1)
RANK = int(os.environ.get("RANK", 0))
# Under the hooks and not asked to be PLAIN: then the jobs may call stepscope. Bare runs do not import it at all.
OBSERVED = bool(os.environ.get("STEPSCOPE_SHM")) and not os.environ.get("PLAIN")


def say(**facts):
    """One write, so that ranks do not cut into each other's lines."""
    sys.stdout.write(f"\nJSON {json.dumps(facts)}\n")
    sys.stdout.flush()


def section(name):
    """Names a stretch of the ring."""
    if not OBSERVED:
        return contextlib.nullcontext()
    from stepscope import trace_phase

    return trace_phase(name)


def digest(*modules):
    """Hash of every bit of every parameter: equal only when the training was bitwise the same."""
    h = hashlib.sha256()
    for m in modules:
        for p in m.parameters():
            own = p.to_local() if hasattr(p, "to_local") else p  # of a sharded one: what this rank holds
            h.update(own.detach().contiguous().numpy().tobytes())
    return h.hexdigest()


def net(width=16):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1))
