"""Copies and syncs of Python code, seen at the tensor methods."""

import time

from fake_device import OnDevice, install, say, torch

fake, native = install()
assert native.gpu_try_start()

big = torch.ones(1 << 20)  # 4 MiB
small = torch.ones(4)
device_big = torch.zeros(1 << 20).as_subclass(OnDevice)
device_small = torch.zeros(4).as_subclass(OnDevice)
device_big.copy_(big)
device_small.copy_(small)
assert float(device_big.as_subclass(torch.Tensor)[7]) == 1.0
try:
    small.to("cuda")
except Exception as error:
    say(error=type(error).__name__)


def a_function_that_syncs():
    return device_big.tolist()  # LINE tolist


assert a_function_that_syncs()[3] == 1.0
scalar = torch.tensor(4.0).as_subclass(OnDevice)
assert scalar.item() == 4.0 and bool(scalar) and int(scalar) == 4 and float(scalar) == 4.0  # short: only counted
device_big.tolist()
assert torch.ones(3).tolist() == [1.0] * 3  # on the CPU: not ours

# What must not change.
assert small.to(torch.float64).dtype == torch.float64 and small.to(dtype=torch.float16).dtype == torch.float16
assert small.to("cpu") is small and small.to(device_small.as_subclass(torch.Tensor)) is small
assert torch.equal(small.clone().copy_(torch.full((4,), 2.0)), torch.full((4,), 2.0))
assert small.clone().copy_(torch.tensor(3)).tolist() == [3.0] * 4
for bad in (lambda: small.to("nonsense"), lambda: small.copy_(torch.ones(5)), lambda: big.item()):
    try:
        bad()
        raise SystemExit("no error")
    except (RuntimeError, TypeError):
        pass
calls = []


class Custom(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs or {})


custom = torch.ones(2).as_subclass(Custom)
calls.clear()
custom.to("cpu")
custom[0].item()
say(custom_calls=calls, doc=bool(torch.Tensor.to.__doc__), state=native.gpu_state())
lines = open(__file__).read().splitlines()
say(line=next(i + 1 for i, text in enumerate(lines) if "# LINE tolist" in text and "return" in text))

# Out of memory: the allocator reports one failure twice.
observer = fake._C.observer
observer(0, 512 << 20, 80 << 30, 3 << 20)
observer(0, 512 << 20, 80 << 30, 3 << 20)
time.sleep(0.05)
