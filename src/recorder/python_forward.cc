// Begin and end of the forward of root modules: hooks on few module instances, never global ones.
#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

// Per thread: roots may nest (a root that calls itself, a hooked child of a hooked parent); only the outermost counts.
constinit thread_local int t_depth = 0;
constinit thread_local uint16_t t_flags = 0;
constinit thread_local uint64_t t_step = 0;  // backward_ends when the depth was last zero: heals a lost end

PyObject *g_str_training = nullptr, *g_nullcontext = nullptr;

uint16_t forward_flags(PyObject* module) {
  uint16_t flags = 0;
  if (g_hooks.is_grad_enabled) {
    const Ref grad(PyObject_CallFunctionObjArgs(g_hooks.is_grad_enabled, nullptr));
    if (!grad) drop_error();
    if (grad.get() == Py_True) flags |= kForwardGrad;
  }
  if (attribute(module, g_str_training).get() == Py_True) flags |= kForwardTraining;
  return flags;
}

void note_fired(uint64_t id) {
  for (int i = 0; i < g_hooks.fired_count; ++i)
    if (g_hooks.fired[i] == id) return;
  if (g_hooks.fired_count < 64) g_hooks.fired[g_hooks.fired_count++] = id;
}

PyObject* forward_pre(PyObject*, PyObject* const* args, Py_ssize_t n) {
  // A forward inside a backward is activation checkpointing computing again.
  if (n < 1 || !active() || in_backward()) return none();
  if (g_hooks.watch_fired) [[unlikely]]
    note_fired(id_of(args[0]));
  if (t_step != t_hooks.backward_ends) t_depth = 0, t_step = t_hooks.backward_ends;
  if (t_depth > 0) return ++t_depth, none();
  const uint16_t flags = forward_flags(args[0]);
  if (interrupted()) return none();  // the forward will not run, nor its other hook
  t_depth = 1;
  t_flags = flags;
  ++g_hooks.forwards;
  boundary_mark(Kind::kForward, Edge::kBegin, id_of(args[0]), t_flags, n > 1 ? elements_of_input(args[1]) : 0);
  return none();
}

PyObject* forward_post(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1 || t_depth == 0 || !active() || in_backward()) return none();
  if (--t_depth > 0) return none();
  boundary_mark(Kind::kForward, Edge::kEnd, id_of(args[0]), t_flags);
  return none();
}

// A module is pickled and saved with its hooks: torch.save(model) must stay loadable where stepscope is not installed.
// A builtin is pickled as getattr(its self, its name). Ours are called "__exit__" and their self reduces to
// contextlib.nullcontext(), whose __exit__ takes any arguments and does nothing.
PyObject* reduce(PyObject*, PyObject*) { return Py_BuildValue("(O())", g_nullcontext); }

PyMethodDef g_self_methods[] = {
    {"__reduce__", as_method(reduce), METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot g_self_slots[] = {
    {Py_tp_methods, g_self_methods},
    {Py_tp_doc, const_cast<char*>("What stepscope's module hooks are bound to.")},
    {0, nullptr},
};
PyType_Spec g_self_spec = {"stepscope._native.ModuleHook", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, g_self_slots};

PyMethodDef g_pre = {"__exit__", as_method(forward_pre), METH_FASTCALL, "Forward pre hook of a root module."};
PyMethodDef g_post = {"__exit__", as_method(forward_post), METH_FASTCALL, "Forward hook of a root module."};

PyObject* watch_fired(PyObject*, PyObject* on) {
  g_hooks.watch_fired = on == Py_True;
  g_hooks.fired_count = 0;
  return none();
}

// Ids of the hooked modules that ran since watch_fired(True) or the last call.
PyObject* take_fired(PyObject*, PyObject*) {
  PyObject* list = PyList_New(0);
  for (int i = 0; list && i < g_hooks.fired_count; ++i) {
    const Ref id(PyLong_FromUnsignedLongLong(g_hooks.fired[i]));
    if (!id || PyList_Append(list, id.get()) != 0) {
      Py_DECREF(list);
      return nullptr;
    }
  }
  g_hooks.fired_count = 0;
  return list;
}

// The members of a list that are instances of a type: the filter of the one pass over gc.get_objects(), 20 times faster
// than in Python.
PyObject* instances(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2 || !PyList_Check(args[0]) || !PyType_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "instances(list, type)");
    return nullptr;
  }
  PyObject* found = PyList_New(0);
  for (Py_ssize_t i = 0; found && i < PyList_Size(args[0]); ++i) {
    PyObject* object = PyList_GetItem(args[0], i);
    if (PyType_IsSubtype(Py_TYPE(object), reinterpret_cast<PyTypeObject*>(args[1])) &&
        PyList_Append(found, object) != 0) {
      Py_DECREF(found);
      return nullptr;
    }
  }
  return found;
}

PyMethodDef g_functions[] = {
    {"watch_fired", as_method(watch_fired), METH_O, "watch_fired(on): note which hooked modules run."},
    {"take_fired", as_method(take_fired), METH_NOARGS, "Ids of the modules noted since the last call."},
    {"instances", as_method(instances), METH_FASTCALL, "instances(list, type) -> list"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_forward_functions(PyObject* module) {
  g_str_training = PyUnicode_InternFromString("training");
  const Ref contextlib(PyImport_ImportModule("contextlib"));
  if (!contextlib) return -1;
  g_nullcontext = PyObject_GetAttrString(contextlib.get(), "nullcontext");
  const Ref type(PyType_FromSpec(&g_self_spec));
  const Ref self(type ? PyObject_CallFunctionObjArgs(type.get(), nullptr) : nullptr);
  if (!g_nullcontext || !self) return -1;
  if (add_object(module, "forward_pre", PyCFunction_NewEx(&g_pre, self.get(), nullptr)) != 0) return -1;
  if (add_object(module, "forward_post", PyCFunction_NewEx(&g_post, self.get(), nullptr)) != 0) return -1;
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
