"""Losses and norms of every sort that a program hands to backward() and takes from clip_grad_norm_."""

import copy
import pickle
import sys

import torch
import torch.nn.functional as F
from common import digest, net, say, section
from torch.nn.utils import clip_grad_norm_
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

X, Y = torch.linspace(-1, 1, 32).reshape(4, 8), torch.ones(4, 1)
SEEN = []


class Own(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        SEEN.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


class Functions(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        SEEN.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))


class Dispatched(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        SEEN.append(str(function))
        return function(*args, **(kwargs or {}))


def train(loss_of, dtype=torch.float32, clip=False):
    model = net().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(F.mse_loss(model(X.to(dtype)), Y.to(dtype))).backward()
        if clip:
            norm = clip_grad_norm_(model.parameters(), 0.5)
            say(norms=float(norm), kind=type(norm).__name__)
        optimizer.step()
    return model


def plain():
    return train(lambda loss: loss)


def double():
    return train(lambda loss: loss, torch.float64)


def bfloat16():
    return train(lambda loss: loss * 0 + 1.5, torch.bfloat16)


def float16():
    return train(lambda loss: loss * 0 + 1.5, torch.float16)


def not_a_number():
    return train(lambda loss: loss * float("nan"))


def infinite():
    return train(lambda loss: loss + float("inf"))


def one_element():
    return train(lambda loss: loss.reshape(1, 1))


def clipped():
    return train(lambda loss: loss, clip=True)


def scheduled():
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        F.mse_loss(model(X), Y).backward()
        optimizer.step()
        scheduler.step()
    say(tensors=len(list(model.parameters())))
    return model


def several():
    model = net()
    loss = F.mse_loss(model(X), Y)
    torch.autograd.backward([loss, loss * float("nan")])
    return model


def many_elements():
    model = net()
    model(X).backward(torch.ones(4, 1))
    return model


def sparse():
    model = net()
    table = torch.eye(1).to_sparse().requires_grad_()
    torch.sparse.sum(table * 1).backward()
    return model


def evaluation():
    with torch.no_grad():
        say(evaluated=str(float(net()(X).sum() * float("nan"))))
    return net()


def masked():
    mask = torch.tensor([0.0, float("-inf")])
    return train(lambda loss: loss + torch.softmax(mask, 0)[1])


def subclass():
    model = net()
    SEEN.clear()
    F.mse_loss(model(X), Y).as_subclass(Own).backward()
    say(subclass=list(SEEN))
    return model


def function_mode():
    model = net()
    loss = F.mse_loss(model(X), Y)
    SEEN.clear()
    with Functions():
        loss.backward()
    say(function_mode=list(SEEN))
    return model


def dispatch_mode():
    model = net()
    loss = F.mse_loss(model(X), Y)
    SEEN.clear()
    with Dispatched():
        loss.backward()
    say(dispatch_mode=sorted(set(SEEN)))
    return model


def refused():
    model = train(lambda loss: loss * float("nan"))
    try:
        clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    except RuntimeError as error:
        say(refused=type(error).__name__)
    say(
        pickled=pickle.loads(pickle.dumps(clip_grad_norm_)).__name__,
        copied=copy.copy(clip_grad_norm_).__name__,
        empty=float(clip_grad_norm_([], 1.0)),
        same=torch.nn.utils.clip_grad_norm_ is torch.nn.utils.clip_grad.clip_grad_norm_,
    )
    return model


def compiled():
    model = train(lambda loss: loss)
    clip = torch.compile(lambda: clip_grad_norm_(model.parameters(), 0.5), backend="eager")
    say(compiled=float(clip()))
    return model


LOOPS = [f for f in list(globals().values()) if callable(f) and getattr(f, "__module__", "") == "__main__"]
LOOPS = [f for f in LOOPS if f.__name__ != "train" and not isinstance(f, type)]
for loop in LOOPS:
    if sys.argv[1:] and loop.__name__ not in sys.argv:
        continue
    torch.manual_seed(1)
    with section(loop.__name__):
        model = loop()
    say(**{"weights_" + loop.__name__: digest(model.float())})
