"""Loss and gradient norm: the numbers that training computes anyway, read without waiting for a device.

The loss where backward is called on it (backward.py replaces that function), the norm where ``clip_grad_norm_``
returns it. No norm is computed here: that would cost a pass over all gradients.
"""

from __future__ import annotations

from types import ModuleType

from stepscope.hooks import names
from stepscope.hooks._replace import replace_everywhere


def install(torch: ModuleType, native: ModuleType) -> None:
    """Reads losses and norms from now on. A name that this torch does not have is left out."""
    modes = getattr(torch._C, "_len_torch_function_stack", None)
    if modes is None:
        names.unavailable("numerics", "this torch does not tell its function modes")
        return
    native.watch_numbers(torch.float16, torch.bfloat16, torch.float32, torch.float64, modes)
    from torch.nn import utils

    from stepscope.hooks import compile as compilation

    original = utils.clip_grad_norm_
    wrapped = native.wrap_norm(original)
    replace_everywhere(original, wrapped, "clip_grad_norm_", "torch.nn.utils")
    if hasattr(torch.compiler, "substitute_in_graph"):
        compilation.substitute(wrapped, original)
