"""Time blocked on collectives: ``Work.wait`` and ``wait_tensor`` of the functional collectives, both by C functions."""

from __future__ import annotations

from types import ModuleType

from stepscope import _native as native
from stepscope._late import when_imported
from stepscope.hooks import names
from stepscope.hooks._replace import replace_everywhere


def _wrap_wait_tensor(module: ModuleType) -> None:
    original = module.wait_tensor
    wrapped = native.wrap_wait_tensor(original)
    replace_everywhere(original, wrapped, "wait_tensor")
    module.wait_tensor = wrapped  # type: ignore[attr-defined]
    from stepscope.hooks import compile as compilation

    compilation.substitute(wrapped, original)


def install(torch: ModuleType, _native: ModuleType) -> None:
    if not torch.distributed.is_available():
        return
    native.wrap_work_wait(torch.distributed.Work)
    if hasattr(torch.compiler, "substitute_in_graph"):
        when_imported("torch.distributed._functional_collectives", _wrap_wait_tensor)
    else:
        names.unavailable("wait_tensor", "torch before 2.5: waits of functional collectives are not seen")
