"""Backward: one name replaced, ``torch.autograd._engine_run_backward``, by a C function that marks around it.

Every way to start a backward passes there. Where torch does not have the name, ``Tensor.backward`` is wrapped.
"""

from __future__ import annotations

from types import ModuleType

from stepscope.hooks import names


def install(torch: ModuleType, native: ModuleType) -> None:
    from torch.autograd import graph

    original = getattr(torch.autograd, "_engine_run_backward", None)
    if original is None or getattr(graph, "_engine_run_backward", None) is not original:
        names.unavailable("backward", "torch.autograd._engine_run_backward is not there")
        return
    native.set_hook("tensor_type", torch.Tensor)
    native.set_hook("disabled_torch_function", torch._C._disabled_torch_function_impl)
    native.set_hook("graph_task", getattr(torch._C, "_current_graph_task_id", None))
    probe = torch.ones((), requires_grad=True) * 1
    if hasattr(probe, "_backward_hooks") and hasattr(probe.grad_fn, "_register_hook_dict"):
        native.set_hook("queue_callback", torch.autograd.Variable._execution_engine.queue_callback)
    else:
        names.unavailable("backward_own", "this torch keeps the hooks of a tensor elsewhere")
    wrapped = native.wrap_backward(original)
    # Both: torch.compiler puts the one in `graph` back into torch.autograd after its own patching.
    graph._engine_run_backward = wrapped
    torch.autograd._engine_run_backward = wrapped
