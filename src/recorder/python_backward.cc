// Begin and end of backward around torch.autograd._engine_run_backward, and the end of own backward work by an engine
// callback that is queued before DDP's finalizer, so that it runs before DDP waits for the other ranks.
#include "blackbox/layout.h"
#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

constexpr uint64_t kBackwardsWithoutOptimizer = 16;

PyObject *g_str_accumulate = nullptr, *g_str_requires_grad = nullptr, *g_str_register_hook = nullptr,
         *g_str_remove = nullptr, *g_str_torch_function = nullptr, *g_own_end_hook = nullptr, *g_own_end = nullptr,
         *g_compiled_autograd = nullptr, *g_str_enabled = nullptr;

// Runs as a final callback of the engine.
PyObject* own_end(PyObject*, PyObject*) {
  boundary_mark(Kind::kBackwardOwn, Edge::kMark, 0);
  return none();
}

// Gradient hook of the loss: the first moment at which a final callback can be queued.
PyObject* own_end_hook(PyObject*, PyObject*) {
  if (g_hooks.queue_callback) {
    const Ref done(PyObject_CallFunctionObjArgs(g_hooks.queue_callback, g_own_end, nullptr));
    if (!done) PyErr_Clear();
  }
  return none();
}

// Only tensors whose methods are torch's own: a subclass with a __torch_function__ would run the user's code.
bool is_plain(PyObject* tensor) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(tensor)) == g_hooks.tensor_type) return true;
  if (!g_hooks.disabled_torch_function) return false;
  return attribute(tensor, g_str_torch_function).get() == g_hooks.disabled_torch_function;
}

// Compiled autograd would trace the hook.
bool compiled_autograd() {
  if (!g_compiled_autograd) {
    const Ref key(PyUnicode_FromString("torch._dynamo.compiled_autograd"));
    g_compiled_autograd = key ? PyImport_GetModule(key.get()) : nullptr;
    if (!g_compiled_autograd) {
      PyErr_Clear();
      return false;
    }
  }
  return attribute(g_compiled_autograd, g_str_enabled).get() == Py_True;
}

// A removable handle, or null when there is nothing to hook.
Ref hook_loss(PyObject* args) {
  PyObject* outputs = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : nullptr;
  if (!outputs || !PyTuple_Check(outputs) || PyTuple_Size(outputs) < 1 || compiled_autograd()) return Ref();
  PyObject* loss = PyTuple_GetItem(outputs, 0);
  if (!is_plain(loss) || attribute(loss, g_str_requires_grad).get() != Py_True) return Ref();
  const Ref register_hook = attribute(loss, g_str_register_hook);
  return register_hook ? call_quietly(register_hook.get(), g_own_end_hook) : Ref();
}

void unhook(const Ref& handle) {
  if (!handle) return;
  KeepError keep;
  const Ref remove = attribute(handle.get(), g_str_remove);
  if (remove) call_quietly(remove.get(), nullptr);
}

bool accumulates(PyObject* kwargs) {
  return kwargs && PyDict_GetItemWithError(kwargs, g_str_accumulate) == Py_True;
}

// `original` is the function that was replaced.
PyObject* run_backward(PyObject* original, PyObject* args, PyObject* kwargs) {
  if (may_open()) [[unlikely]] open_by_hook();
  const bool outermost = g_hooks.backward_depth == 0 && g_hooks.compiling == 0;  // tracing a joint graph is no backward
  if (!outermost || !active()) {
    ++g_hooks.backward_depth;
    PyObject* result = PyObject_Call(original, args, kwargs);
    if (g_hooks.backward_depth > 0) --g_hooks.backward_depth;
    return result;
  }
  const bool accumulate = accumulates(kwargs);
  ++g_hooks.backward_depth;
  boundary_mark(Kind::kBackward, Edge::kBegin, accumulate);
  const Ref handle = accumulate && g_hooks.own_end ? hook_loss(args) : Ref();
  PyObject* result = PyErr_Occurred() ? nullptr : PyObject_Call(original, args, kwargs);
  unhook(handle);
  g_hooks.backward_depth = 0;
  ++g_hooks.backward_ends;
  boundary_mark(Kind::kBackward, Edge::kEnd, accumulate);
  if (result) evidence(blackbox::kEvidenceBackward);
  // Loops without an optimizer have no other boundary. Some backwards are waited for: accumulation comes first, too.
  const bool no_optimizer = g_hooks.optimizer_begins == 0 && g_hooks.backward_ends >= kBackwardsWithoutOptimizer;
  if (result && no_optimizer && !step_boundary()) {
    Py_DECREF(result);
    return nullptr;
  }
  return result;
}

// ---- a backward that is not torch's (stepscope.wrap_backward) ----

PyObject* backward_begin(PyObject*, PyObject*) {
  if (g_hooks.backward_depth++ == 0) boundary_mark(Kind::kBackward, Edge::kBegin, 1);
  return none();
}

PyObject* backward_end(PyObject*, PyObject*) {
  if (g_hooks.backward_depth == 0 || --g_hooks.backward_depth > 0) return none();
  ++g_hooks.backward_ends;
  boundary_mark(Kind::kBackward, Edge::kEnd, 1);
  evidence(blackbox::kEvidenceBackward);
  return none();
}

PyMethodDef g_run = {"_engine_run_backward", as_method(run_backward), METH_VARARGS | METH_KEYWORDS,
                     "torch.autograd.graph._engine_run_backward with marks around it."};
PyMethodDef g_hook_def = {"stepscope_own_end_hook", as_method(own_end_hook), METH_O, nullptr};
PyMethodDef g_end_def = {"stepscope_own_end", as_method(own_end), METH_NOARGS, nullptr};

PyObject* wrap_backward(PyObject*, PyObject* original) {
  const Ref module(PyUnicode_FromString("torch.autograd.graph"));
  return PyCFunction_NewEx(&g_run, original, module.get());
}

PyMethodDef g_functions[] = {
    {"wrap_backward", as_method(wrap_backward), METH_O, "wrap_backward(original) -> callable"},
    {"backward_begin", as_method(backward_begin), METH_NOARGS, "Backward of the caller's own begins."},
    {"backward_end", as_method(backward_end), METH_NOARGS, "Backward of the caller's own ends."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_backward_functions(PyObject* module) {
  g_str_accumulate = PyUnicode_InternFromString("accumulate_grad");
  g_str_requires_grad = PyUnicode_InternFromString("requires_grad");
  g_str_register_hook = PyUnicode_InternFromString("register_hook");
  g_str_remove = PyUnicode_InternFromString("remove");
  g_str_torch_function = PyUnicode_InternFromString("__torch_function__");
  g_str_enabled = PyUnicode_InternFromString("compiled_autograd_enabled");
  g_own_end_hook = PyCFunction_NewEx(&g_hook_def, nullptr, nullptr);
  g_own_end = PyCFunction_NewEx(&g_end_def, nullptr, nullptr);
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
