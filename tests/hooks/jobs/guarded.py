"""Hooks as torch before 2.5 gets them: pickled without stepscope, out of the way while torch.compile traces."""

import copy
import pickle

from common import *

from stepscope.hooks import forward

forward._guarded_hooks(torch)
m = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
forward._attach(m)
x = torch.randn(2, 4)
m(x).sum().backward()
text = pickle.dumps(m)
same = [torch.equal(other(x), m(x)) for other in (pickle.loads(text), copy.deepcopy(m))]
breaks = torch._dynamo.explain(m)(x).graph_break_count
say(named=b"stepscope" in text, same=same, breaks=breaks)
