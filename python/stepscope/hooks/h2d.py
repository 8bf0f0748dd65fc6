"""Copies from host to device and blocking syncs that Python code asks for, by C method descriptors on ``torch.Tensor``
(python_copy.cc). Copies that C++ does by itself, as the loader of a library may, are not seen here.
"""

from __future__ import annotations

from types import ModuleType

from stepscope import _native as native
from stepscope.hooks import names


def start(torch: ModuleType, _device: int) -> None:
    """Replaces the methods; called when CUDA is in use."""
    if native.wrap_copies(torch.Tensor, torch.device, torch._C._disabled_torch_function_impl) < 3:
        names.unavailable("h2d", "torch.Tensor lacks one of to, cuda, copy_")
    if native.wrap_syncs(torch.Tensor) == 0:
        names.unavailable("sync", "torch.Tensor has no item()")
    original = getattr(torch._C, "_cuda_synchronize", None)
    if original is not None:
        # What torch.cuda.synchronize() calls; the function itself stays torch's own.
        torch._C._cuda_synchronize = native.wrap_synchronize(original)
