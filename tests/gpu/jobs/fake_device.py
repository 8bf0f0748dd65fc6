"""A torch on CPU whose device side is the fake driver: what device.py takes from torch is replaced, the rest is real."""

import ctypes
import json
import os
import sys

import torch

FAKES = os.environ["FAKES"]
cuda = ctypes.CDLL(os.path.join(FAKES, "libfake_cuda.so"), mode=ctypes.RTLD_GLOBAL)
cuda.fake_cuda_context.argtypes = [ctypes.c_void_p]
cuda.fake_cuda_work.argtypes = [ctypes.c_void_p, ctypes.c_int64]
cuda.fake_cuda_capture.argtypes = [ctypes.c_void_p, ctypes.c_int]
for _name in ("context", "work", "capture"):
    getattr(cuda, f"fake_cuda_{_name}").restype = None
STREAM = 0x1230
MB = 1 << 20


def say(**facts):
    sys.stdout.write(f"\nJSON {json.dumps(facts)}\n")
    sys.stdout.flush()


class Allocator:
    """What torch._C._cuda_memoryStats returns, with figures that the job sets."""

    def __init__(self):
        self.now = dict(allocated=100 * MB, reserved=200 * MB, active=110 * MB, inactive=5 * MB)
        self.peak = dict(allocated=150 * MB, reserved=200 * MB)
        self.retries = self.ooms = 0
        self.calls = 0

    def __call__(self, device):
        self.calls += 1
        n, p = self.now, self.peak
        value = lambda current, peak=0: {"all": {"current": current, "peak": peak, "allocated": 0, "freed": 0}}
        return {
            "allocated_bytes": value(n["allocated"], p["allocated"]),
            "reserved_bytes": value(n["reserved"], p["reserved"]),
            "active_bytes": value(n["active"]),
            "inactive_split_bytes": value(n["inactive"]),
            "num_alloc_retries": self.retries,
            "num_ooms": self.ooms,
            "num_device_alloc": 7,
            "num_device_free": 3,
        }


class _C:
    def __init__(self, allocator):
        self._cuda_memoryStats = allocator
        self._cuda_getCurrentRawStream = lambda device: STREAM
        self._cuda_attach_out_of_memory_observer = self._attach
        self._disabled_torch_function_impl = torch._C._disabled_torch_function_impl
        self._cuda_synchronize = lambda: None
        self.observer = None

    def _attach(self, observer):
        self.observer = observer


class FakeTorch:
    """Handed to the hooks in place of the module torch."""

    def __init__(self):
        self.allocator = Allocator()
        self._C = _C(self.allocator)
        self.version = type("V", (), {"cuda": "13.0", "hip": None})
        properties = type("P", (), {"name": "Fake GPU", "total_memory": 80_000 * MB, "uuid": "0123"})
        self.segments = [
            {
                "device": 0,
                "blocks": [{"size": 8 * MB, "state": "inactive"}, {"size": 64 * MB, "state": "active_allocated"}],
            }
        ]
        self.cuda = type(
            "Cuda", (), {"get_device_properties": lambda device: properties, "memory_snapshot": lambda: self.segments}
        )

    def __getattr__(self, name):
        return getattr(torch, name)


class OnDevice(torch.Tensor):
    """A CPU tensor that says it lies on a CUDA device."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    is_cuda = True
    is_cpu = False


def install():
    """The device hooks, on a thread that has a context. Returns the fake torch and the native module."""
    from stepscope import _native as native
    from stepscope.hooks import device

    fake = FakeTorch()
    device.install(fake, native)
    cuda.fake_cuda_context(0xC0)
    return fake, native
