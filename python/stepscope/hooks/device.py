"""The GPU side: device times of phases, the NCCL plugin, and what else needs a device (memory.py, h2d.py).

Nothing is installed where torch has no CUDA or the machine no NVIDIA device. CUDA itself is never initialised from here:
the native side waits until the training has a context and starts at the next phase boundary.
"""

from __future__ import annotations

import atexit
import os
from types import ModuleType

from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks import h2d, memory, names

_DEVICE_FILES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-ctrl")
_PLUGIN, _CHAIN = "NCCL_PROFILER_PLUGIN", "STEPSCOPE_NCCL_CHAIN"


def missing(torch: ModuleType) -> str | None:
    """Why there is nothing to watch, or None when there is."""
    if getattr(torch.version, "hip", None):
        return "ROCm is not supported"
    if getattr(torch.version, "cuda", None) is None or not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        return "torch has no CUDA"
    if not os.environ.get("STEPSCOPE_CUDA_LIBRARY") and not any(map(os.path.exists, _DEVICE_FILES)):
        return "no NVIDIA device"
    return None


def use_plugin() -> None:
    """Names our own file as NCCL's profiler plugin, before the first communicator; a plugin of the user's is chained."""
    ours = native.__file__
    present = os.environ.get(_PLUGIN, "")
    if present == ours or os.environ.get("STEPSCOPE_NCCL", "").lower() in ("0", "off"):
        return
    if present.lower() == "none" or present == "STATIC_PLUGIN":
        names.unavailable("nccl", f"{_PLUGIN} is {present}")
        return
    if present:
        version = native.nccl_chain_version(present)
        if version < 4:
            reason = f"speaks only version {version}" if version else "cannot be loaded"
            names.unavailable("nccl", f"{_PLUGIN} is taken by {present}, which {reason}")
            return
        os.environ[_CHAIN] = present
    os.environ[_PLUGIN] = ours


def _watch_fsdp(module: ModuleType) -> None:
    if native.wrap_wait_points(module.FSDPParamGroup) == 0:
        names.unavailable("fsdp wait points", "this torch has other methods")


def _identity(torch: ModuleType, device: int) -> None:
    properties = torch.cuda.get_device_properties(device)
    names.fact("device", f"cuda:{device} {properties.name}")
    names.fact("device_memory_bytes", properties.total_memory)
    if uuid := getattr(properties, "uuid", None):
        names.fact("device_uuid", f"GPU-{uuid}")
    names.fact("cuda", torch.version.cuda)


def install(torch: ModuleType, _native: ModuleType) -> None:
    reason = missing(torch)
    if reason:
        names.fact("device", "cpu")
        return

    def started(device: int) -> None:
        for step in (_identity, memory.start, h2d.start):
            try:
                step(torch, device)
            except Exception as error:
                names.unavailable(f"device {step.__name__}", f"{type(error).__name__}: {error}")

    stats = getattr(torch._C, "_cuda_memoryStats", None)
    if not native.gpu_arm(torch._C._cuda_getCurrentRawStream, stats, started):
        names.unavailable("gpu_time", native.gpu_state()["reason"])
        return
    # After exit.py's handler was registered, so before it runs: the ring is still open for the last marks.
    atexit.register(native.gpu_stop)
    use_plugin()
    when_imported("torch.distributed.fsdp._fully_shard._fsdp_param_group", _watch_fsdp)
