// Begin and end of backward around torch.autograd._engine_run_backward, and the end of own backward work by an engine
// callback that is queued before DDP's finalizer, so that it runs before DDP waits for the other ranks.
#include <optional>

#include "blackbox/layout.h"
#include "python_hooks.h"
#include "recorder/python_numerics.h"

namespace stepscope::recorder {
namespace {

constexpr uint64_t kBackwardsWithoutOptimizer = 16;

PyObject *g_str_requires_grad = nullptr, *g_str_hooks = nullptr, *g_str_torch_function = nullptr,
         *g_own_end_hook = nullptr, *g_own_end = nullptr, *g_compiled_autograd = nullptr, *g_str_enabled = nullptr,
         *g_str_grad_fn = nullptr, *g_str_next = nullptr, *g_str_register_dict = nullptr, *g_ordered_dict = nullptr,
         *g_key = nullptr;

// Runs as a final callback of the engine.
PyObject* own_end(PyObject*, PyObject*) {
  boundary_mark(Kind::kBackwardOwn, Edge::kMark, 0);
  return none();
}

// Gradient hook of the loss: the first moment at which a final callback can be queued.
PyObject* own_end_hook(PyObject*, PyObject*) {
  const Ref done(PyObject_CallFunctionObjArgs(g_hooks.queue_callback, g_own_end, nullptr));
  if (!done) drop_error();
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
      drop_error();
      return false;
    }
  }
  return attribute(g_compiled_autograd, g_str_enabled).get() == Py_True;
}

// A gradient hook on the loss for the time of one backward. What Tensor.register_hook and its handle do, without their
// Python frames (torch.compile would look into those) and for a third of the time: an entry in the tensor's ordered
// dict of hooks, under a key that handles never use.
class LossHook {
 public:
  explicit LossHook(PyObject* outputs) {
    if (!outputs || !PyTuple_Check(outputs) || PyTuple_Size(outputs) < 1 || compiled_autograd()) return;
    PyObject* loss = PyTuple_GetItem(outputs, 0);
    if (is_plain(loss) && attribute(loss, g_str_requires_grad).get() == Py_True && !put(loss)) hooks_ = Ref();
    drop_error();
  }
  ~LossHook() {
    if (!hooks_) return;
    KeepError keep;
    if (PyObject_DelItem(hooks_.get(), g_key) != 0) drop_error();
  }

 private:
  bool put(PyObject* loss) {
    const Ref grad_fn = attribute(loss, g_str_grad_fn);  // first: it refreshes a stale view
    hooks_ = Ref(PyObject_GetAttr(loss, g_str_hooks));
    if (!hooks_) return false;
    if (hooks_.get() == Py_None) {
      hooks_ = Ref(PyObject_CallFunctionObjArgs(g_ordered_dict, nullptr));
      if (!hooks_ || PyObject_SetAttr(loss, g_str_hooks, hooks_.get()) != 0) return false;
      if (grad_fn && grad_fn.get() != Py_None) {
        const Ref done(PyObject_CallMethodObjArgs(grad_fn.get(), g_str_register_dict, loss, nullptr));
        if (!done) return false;
      }
    }
    return PyObject_SetItem(hooks_.get(), g_key, g_own_end_hook) == 0;
  }

  Ref hooks_;
};

// How many nodes a backward walks through, of the smallest graph among the first few (a step may have several, of
// models of their own): for how long an operator takes. Counted that rarely since the first look at a node makes its
// Python object, some 1 us; what is behind kMostNodes is not counted.
constexpr uint64_t kGraphsFrom = 1, kGraphsTo = 4;  // backwards before them; the first may set things up
constexpr Py_ssize_t kMostNodes = 16384;
uint64_t g_least_nodes = 0;

// Adds a node to those found, unless it is among them. False where that fails.
bool note_node(PyObject* found, PyObject* seen, PyObject* node) {
  const Ref id(PyLong_FromVoidPtr(node));
  if (!id) return false;
  const int known = PySet_Contains(seen, id.get());
  if (known != 0) return known > 0;
  return PySet_Add(seen, id.get()) == 0 && PyList_Append(found, node) == 0;
}

uint64_t nodes_behind(PyObject* loss) {
  const Ref root = attribute(loss, g_str_grad_fn);
  if (!root || root.get() == Py_None) return 0;
  // Kept until all are counted: a node's object that is let go may come again at another address.
  const Ref found(PyList_New(0)), seen(PySet_New(nullptr));
  bool goes_on = found && seen && note_node(found.get(), seen.get(), root.get());
  for (Py_ssize_t i = 0; goes_on && i < PyList_Size(found.get()) && i < kMostNodes; ++i) {
    const Ref edges = attribute(PyList_GetItem(found.get(), i), g_str_next);
    goes_on = edges && PyTuple_Check(edges.get());
    for (Py_ssize_t e = 0; goes_on && e < PyTuple_Size(edges.get()); ++e) {
      PyObject* edge = PyTuple_GetItem(edges.get(), e);
      PyObject* next = edge && PyTuple_Check(edge) && PyTuple_Size(edge) > 0 ? PyTuple_GetItem(edge, 0) : Py_None;
      if (next != Py_None) goes_on = note_node(found.get(), seen.get(), next);
    }
  }
  drop_error();
  return found ? static_cast<uint64_t>(PyList_Size(found.get())) : 0;
}

void count_graph(PyObject* outputs) {
  if (g_hooks.backward_ends < kGraphsFrom || g_hooks.backward_ends >= kGraphsTo) return;
  if (!outputs || !PyTuple_Check(outputs) || PyTuple_Size(outputs) != 1 || compiled_autograd()) return;
  PyObject* loss = PyTuple_GetItem(outputs, 0);
  if (!is_plain(loss)) return;
  const uint64_t nodes = nodes_behind(loss);
  if (nodes > 0 && (g_least_nodes == 0 || nodes < g_least_nodes)) g_least_nodes = nodes;
}

PyObject* graph_nodes(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(g_least_nodes); }

void begun(ThreadState& thread) {
  thread.backward_depth = 1;
  ++g_hooks.backwards_open;
}

void ended(ThreadState& thread) {
  thread.backward_depth = 0;
  ++thread.backward_ends;
  --g_hooks.backwards_open;
  ++g_hooks.backward_ends;
}

// torch.autograd.graph._engine_run_backward(t_outputs, *args, accumulate_grad=…)
PyObject* run_backward(const Call& call) {
  if (may_open()) [[unlikely]]
    open_by_hook();
  ThreadState& thread = t_hooks;
  const bool outermost = thread.compiling == 0 && !in_backward();  // tracing a joint graph is no backward
  if (!outermost || !active()) {
    ++thread.backward_depth;
    PyObject* result = call.proceed();
    if (thread.backward_depth > 0) --thread.backward_depth;
    return result;
  }
  const bool accumulate = call.argument(call.count(), "accumulate_grad") == Py_True;
  if (accumulate) count_graph(call.argument(0, "t_outputs"));
  begun(thread);
  boundary_mark(Kind::kBackward, Edge::kBegin, accumulate);
  PyObject* result;
  {
    std::optional<LossHook> hook;
    PyObject* outputs = accumulate ? call.argument(0, "t_outputs") : nullptr;
    read_scalars(outputs, ScalarOf::kLoss);
    if (accumulate && g_hooks.own_end && g_hooks.queue_callback) hook.emplace(outputs);
    result = call.proceed();
  }
  ended(thread);
  boundary_mark(Kind::kBackward, Edge::kEnd, accumulate);
  if (result) evidence(blackbox::kEvidenceBackward);
  // Loops without an optimizer have no other boundary. Some backwards are waited for: accumulation comes first, too.
  const bool no_optimizer = g_hooks.optimizer_begins == 0 && g_hooks.backward_ends >= kBackwardsWithoutOptimizer;
  if (result && no_optimizer) step_boundary();
  return result;
}

// ---- a backward that is not torch's (stepscope.wrap_backward) ----

PyObject* backward_begin(PyObject*, PyObject*) {
  if (t_hooks.backward_depth > 0) {
    ++t_hooks.backward_depth;
    return none();
  }
  begun(t_hooks);
  boundary_mark(Kind::kBackward, Edge::kBegin, 1);
  return none();
}

PyObject* backward_end(PyObject*, PyObject*) {
  if (t_hooks.backward_depth == 0 || --t_hooks.backward_depth > 0) return none();
  ended(t_hooks);
  boundary_mark(Kind::kBackward, Edge::kEnd, 1);
  evidence(blackbox::kEvidenceBackward);
  return none();
}

PyMethodDef g_hook_def = {"stepscope_own_end_hook", as_method(own_end_hook), METH_O, nullptr};
PyMethodDef g_end_def = {"stepscope_own_end", as_method(own_end), METH_NOARGS, nullptr};

PyObject* wrap_backward(PyObject*, PyObject* original) { return stand_in(original, run_backward); }

PyMethodDef g_functions[] = {
    {"wrap_backward", as_method(wrap_backward), METH_O, "wrap_backward(original) -> callable"},
    {"backward_begin", as_method(backward_begin), METH_NOARGS, "Backward of the caller's own begins."},
    {"backward_end", as_method(backward_end), METH_NOARGS, "Backward of the caller's own ends."},
    {"graph_nodes", as_method(graph_nodes), METH_NOARGS,
     "Nodes of the smallest graph of the first backwards; 0 = none."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool for_other_backward() noexcept {
  if (!g_hooks.graph_task) return true;
  const Ref id(PyObject_CallFunctionObjArgs(g_hooks.graph_task, nullptr));
  if (!id) drop_error();
  return as_u64(id.get(), ~0ull) != ~0ull;
}

int add_backward_functions(PyObject* module) {
  g_str_requires_grad = PyUnicode_InternFromString("requires_grad");
  g_str_hooks = PyUnicode_InternFromString("_backward_hooks");
  g_str_grad_fn = PyUnicode_InternFromString("grad_fn");
  g_str_next = PyUnicode_InternFromString("next_functions");
  g_str_register_dict = PyUnicode_InternFromString("_register_hook_dict");
  g_key = PyLong_FromLong(-0x5353);
  const Ref collections(PyImport_ImportModule("collections"));
  g_ordered_dict = collections ? PyObject_GetAttrString(collections.get(), "OrderedDict") : nullptr;
  if (!g_ordered_dict) return -1;
  g_str_torch_function = PyUnicode_InternFromString("__torch_function__");
  g_str_enabled = PyUnicode_InternFromString("compiled_autograd_enabled");
  g_own_end_hook = PyCFunction_NewEx(&g_hook_def, nullptr, nullptr);
  g_own_end = PyCFunction_NewEx(&g_end_def, nullptr, nullptr);
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
