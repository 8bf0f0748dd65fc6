"""A signal arrives while code of the observer runs inside a hook: its handler's exception must reach the program, and
the hooks must be whole afterwards. Prints what each place raised, "nothing raised" where it was swallowed."""

import signal
import time

from common import *
from torch.utils.data import DataLoader, TensorDataset


class Gone(BaseException):
    pass


class Late(Exception):
    pass


def handler(kind):
    def handle(_number, _frame):
        raise kind("handler")

    return handle


def interrupt():
    os.kill(os.getpid(), signal.SIGUSR1)


class Queue:
    """Of a library of its own: to ask it runs Python code."""

    def __init__(self, inner, calls):
        self.inner, self.calls = inner, calls

    def qsize(self):
        self.calls.append(1)
        if len(self.calls) == 2:
            interrupt()
        return 1

    def __getattr__(self, name):
        return getattr(self.inner, name)


class Root(nn.Module):
    armed = False

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)
        self.__dict__.pop("training", None)

    @property
    def training(self):
        if Root.armed:
            Root.armed = False
            interrupt()
        return True

    @training.setter
    def training(self, value):
        pass

    def forward(self, x):
        return self.layer(x)


class Meta(type):
    armed = False

    @property
    def __name__(cls):
        if Meta.armed:
            Meta.armed = False
            interrupt()
        return "Own"


class Own(torch.optim.SGD, metaclass=Meta):
    pass


data = TensorDataset(torch.randn(16, 8))
m = net()
o = torch.optim.SGD(m.parameters(), 0.01)
root = Root()
ro = torch.optim.SGD(root.parameters(), 0.01)


def step():
    m(torch.randn(4, 8)).sum().backward()
    o.step()


def queue():
    it = iter(DataLoader(data, 4, num_workers=1))
    it._data_queue = Queue(it._data_queue, [])
    try:
        for _ in it:
            pass
    finally:
        it._shutdown_workers()


def queue_at_the_end():
    it = iter(DataLoader(data, 16, num_workers=1))
    it._data_queue = Queue(it._data_queue, [])
    try:
        next(it)
        next(it)  # StopIteration is on its way when the handler speaks
    finally:
        it._shutdown_workers()


def iterator():
    """An iterator that no DataLoader made: the observer gives it an id by a call into Python."""
    from torch.utils.data import dataloader

    class Bare(dataloader._BaseDataLoaderIter):
        def __init__(self):
            pass

        def __setattr__(self, name, value):
            interrupt()

        def __next__(self):
            return super().__next__()

        def _next_data(self):
            raise StopIteration

    next(Bare())


def forward():
    Root.armed = True
    root(torch.randn(4, 8))


def optimizer():
    own = Own(m.parameters(), 0.01)
    Meta.armed = True
    own.step()


def boundary():
    from stepscope.hooks import boundary

    boundary.request(interrupt)
    step()


def wrapped():
    """Around a constructor."""
    from stepscope import _native

    def original():
        say(original_ran=True)

    _native.around(original, lambda args, kwargs: interrupt(), None)()


def wrapped_after():
    from stepscope import _native

    _native.around(lambda: 3, None, lambda *all: interrupt())()


for _ in range(3):  # after these the roots are hooked
    step()
    root(torch.randn(4, 8)).sum().backward()
    ro.step()
results = {}
for kind in (KeyboardInterrupt, SystemExit, Gone):
    signal.signal(signal.SIGUSR1, handler(kind))
    for place in (queue, queue_at_the_end, iterator, forward, optimizer, boundary, wrapped, wrapped_after):
        try:
            place()
            results[f"{place.__name__} {kind.__name__}"] = "nothing raised"
        except kind as error:
            results[f"{place.__name__} {kind.__name__}"] = str(error)
        except BaseException as error:
            results[f"{place.__name__} {kind.__name__}"] = repr(error)
say(**results)

# The standard library's queues are looked at without running Python code, where a handler of an ordinary exception
# could speak. ``qsize`` of the record: what waited.
import queue as standard  # noqa: E402

from torch.utils.data import dataloader  # noqa: E402


class Bare(dataloader._BaseDataLoaderIter):
    def __init__(self, queue):
        self._num_workers, self._tasks_outstanding, self._task_info, self._data_queue = 1, 5, {}, queue
        self._profile_name, self._sampler_iter, self._num_yielded, self._dataset_kind = "x", 1, 0, 0
        for i in range(3):
            queue.put(i)

    def _next_data(self):
        return torch.randn(2)


class Counted(standard.Queue):
    def qsize(self):
        return 2


calls = []
context = torch.multiprocessing.get_context("fork")
for kind in (standard.Queue, standard.PriorityQueue, context.Queue, Counted):
    it = Bare(kind())
    if kind == context.Queue:
        time.sleep(0.5)  # until its thread has written
    next(it)
    with section("standard queues"):
        sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
        next(it)
        sys.setprofile(None)
say(calls=calls.count("qsize"))
step()
say(done=True)
