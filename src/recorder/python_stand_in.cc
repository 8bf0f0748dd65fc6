#include "python_stand_in.h"

#include <dlfcn.h>
#include <structmember.h>

#include <cstddef>
#include <memory>
#include <new>

#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

// In every CPython since 3.9, in the limited API since 3.12.
constexpr unsigned long kHaveVectorcall = 1UL << 11, kMethodDescriptor = 1UL << 17;

using Vectorcall = PyObject* (*)(PyObject*, PyObject* const*, size_t, PyObject*);

struct StandIn {
  PyObject ob_base;
  Vectorcall call;
  PyObject* original;
  Body body;
  PyObject *before, *after;  // of around()
  PyObject* weak;
};

PyObject *g_binding = nullptr, *g_plain = nullptr;  // types: binds as a function does, or not, as builtins
PyObject *g_method_type = nullptr, *g_function_type = nullptr;
PyObject* g_own[4];  // attributes that are not the original's

StandIn* as_stand_in(PyObject* object) { return reinterpret_cast<StandIn*>(object); }

PyObject* call_slowly(PyObject* function, PyObject* const* stack, Py_ssize_t n, PyObject* names) {
  const Ref args(PyTuple_New(n));
  const Ref kwargs(names ? PyDict_New() : nullptr);
  if (!args || (names && !kwargs)) return nullptr;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Py_INCREF(stack[i]);
    PyTuple_SetItem(args.get(), i, stack[i]);
  }
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); ++i)
    if (PyDict_SetItem(kwargs.get(), PyTuple_GetItem(names, i), stack[n + i]) != 0) return nullptr;
  return PyObject_Call(function, args.get(), kwargs.get());
}

PyObject* called(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  const StandIn* s = as_stand_in(self);
  return give(s->body({s->original, args, nargsf, names, s->before, s->after}));
}

// The slow way in, for callers that have a tuple and a dict.
PyObject* tp_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const Py_ssize_t n = PyTuple_Size(args), k = kwargs ? PyDict_Size(kwargs) : 0;
  const std::unique_ptr<PyObject*[]> stack(new (std::nothrow) PyObject*[static_cast<size_t>(n + k + 1)]);
  if (!stack) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; ++i) stack[static_cast<size_t>(i)] = PyTuple_GetItem(args, i);
  const Ref names(k ? PyTuple_New(k) : nullptr);
  if (k && !names) return nullptr;
  PyObject *key, *value;
  for (Py_ssize_t at = 0, i = 0; k && PyDict_Next(kwargs, &at, &key, &value); ++i) {
    Py_INCREF(key);
    PyTuple_SetItem(names.get(), i, key);
    stack[static_cast<size_t>(n + i)] = value;
  }
  return called(self, stack.get(), static_cast<size_t>(n), names.get());
}

PyObject* tp_getattro(PyObject* self, PyObject* name) {
  for (PyObject* own : g_own)
    if (PyUnicode_Compare(name, own) == 0) return PyObject_GenericGetAttr(self, name);
  return PyObject_GetAttr(as_stand_in(self)->original, name);
}

int tp_setattro(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(as_stand_in(self)->original, name, value);
}

PyObject* tp_repr(PyObject* self) { return PyObject_Repr(as_stand_in(self)->original); }

PyObject* tp_descr_get(PyObject* self, PyObject* object, PyObject*) {
  if (!object || object == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyObject_CallFunctionObjArgs(g_method_type, self, object, nullptr);
}

// Python functions pickle by name, others as they say themselves.
PyObject* reduce(PyObject* self, PyObject* protocol) {
  PyObject* original = as_stand_in(self)->original;
  const bool by_name =
      reinterpret_cast<PyObject*>(Py_TYPE(original)) == g_function_type || Py_TYPE(original) == Py_TYPE(self);
  if (by_name) return PyObject_GetAttrString(original, "__qualname__");
  const Ref number(protocol ? nullptr : PyLong_FromLong(2));
  const Ref text(PyUnicode_FromString("__reduce_ex__"));
  return text ? PyObject_CallMethodObjArgs(original, text.get(), protocol ? protocol : number.get(), nullptr) : nullptr;
}
PyObject* reduce_0(PyObject* self, PyObject*) { return reduce(self, nullptr); }

// As builtin functions are: the copy is itself.
PyObject* itself(PyObject* self, PyObject*) {
  Py_INCREF(self);
  return self;
}

int tp_traverse(PyObject* self, visitproc visit, void* arg) {
  StandIn* s = as_stand_in(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(s->original);
  Py_VISIT(s->before);
  Py_VISIT(s->after);
  return 0;
}

void tp_dealloc(PyObject* self) {
  StandIn* s = as_stand_in(self);
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (s->weak) PyObject_ClearWeakRefs(self);
  Py_XDECREF(s->original);
  Py_XDECREF(s->before);
  Py_XDECREF(s->after);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

PyMethodDef g_methods[] = {{"__reduce_ex__", as_method(reduce), METH_O, nullptr},
                           {"__reduce__", as_method(reduce_0), METH_NOARGS, nullptr},
                           {nullptr, nullptr, 0, nullptr}};
PyMethodDef g_plain_methods[] = {g_methods[0],
                                 g_methods[1],
                                 {"__copy__", as_method(itself), METH_NOARGS, nullptr},
                                 {"__deepcopy__", as_method(itself), METH_O, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};
PyMemberDef g_members[] = {{"__vectorcalloffset__", T_PYSSIZET, offsetof(StandIn, call), READONLY, nullptr},
                           {"__weaklistoffset__", T_PYSSIZET, offsetof(StandIn, weak), READONLY, nullptr},
                           {nullptr, 0, 0, 0, nullptr}};

template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyObject* make_type(const char* name, bool binds) {
  PyType_Slot slots[] = {{Py_tp_call, slot(tp_call)},
                         {Py_tp_getattro, slot(tp_getattro)},
                         {Py_tp_setattro, slot(tp_setattro)},
                         {Py_tp_repr, slot(tp_repr)},
                         {Py_tp_traverse, slot(tp_traverse)},
                         {Py_tp_dealloc, slot(tp_dealloc)},
                         {Py_tp_methods, binds ? g_methods : g_plain_methods},
                         {Py_tp_members, g_members},
                         {binds ? Py_tp_descr_get : 0, binds ? slot(tp_descr_get) : nullptr},
                         {0, nullptr}};
  unsigned long flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | kHaveVectorcall;
  if (binds) flags |= kMethodDescriptor;
  PyType_Spec spec = {name, sizeof(StandIn), 0, static_cast<unsigned>(flags), slots};
  return PyType_FromSpec(&spec);
}

PyObject* make(PyObject* type, PyObject* original, Body body, PyObject* before = nullptr, PyObject* after = nullptr) {
  auto* allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(reinterpret_cast<PyTypeObject*>(type), Py_tp_alloc));
  PyObject* object = allocate(reinterpret_cast<PyTypeObject*>(type), 0);
  if (!object) return nullptr;
  StandIn* s = as_stand_in(object);
  s->call = called;
  s->body = body;
  hold(s->original, original);
  hold(s->before, before);
  hold(s->after, after);
  return object;
}

PyObject* type_for(PyObject* original) {
  return PyType_GetSlot(Py_TYPE(original), Py_tp_descr_get) ? g_binding : g_plain;
}

// ---- Python code of ours around a call that is no hot path ----

Ref positional(const Call& call) {
  Ref args(PyTuple_New(call.count()));
  for (Py_ssize_t i = 0; args && i < call.count(); ++i) {
    Py_INCREF(call.args[i]);
    PyTuple_SetItem(args.get(), i, call.args[i]);
  }
  return args;
}

Ref keywords(const Call& call) {
  Ref kwargs(PyDict_New());
  for (Py_ssize_t i = 0; kwargs && call.names && i < PyTuple_Size(call.names); ++i)
    if (PyDict_SetItem(kwargs.get(), PyTuple_GetItem(call.names, i), call.args[call.count() + i]) != 0) return Ref();
  return kwargs;
}

PyObject* around_body(const Call& call) {
  const Ref args = positional(call), kwargs = keywords(call);
  if (!args || !kwargs) return nullptr;
  Ref state(none());
  if (call.before) {
    const Ref both(PyTuple_Pack(2, args.get(), kwargs.get()));
    if (Ref told = call_quietly_with(call.before, both.get())) state = static_cast<Ref&&>(told);
  }
  Ref result(interrupted() ? nullptr : call.proceed());
  if (!call.after) return result.release();
  PyObject* shown = result ? result.get() : Py_None;
  PyObject* failed = result ? Py_False : Py_True;
  Ref all;
  {
    const KeepError keep;
    all = Ref(PyTuple_Pack(5, state.get(), args.get(), kwargs.get(), shown, failed));
  }
  if (all) call_quietly_with(call.after, all.get());
  return result.release();
}

PyObject* around(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 3 || !PyCallable_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "around(original, before, after)");
    return nullptr;
  }
  PyObject* before = args[1] == Py_None ? nullptr : args[1];
  PyObject* after = args[2] == Py_None ? nullptr : args[2];
  return make(type_for(args[0]), args[0], around_body, before, after);
}

PyObject* is_stand_in(PyObject*, PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  return PyBool_FromLong(type == g_binding || type == g_plain);
}

PyMethodDef g_functions[] = {
    {"around", as_method(around), METH_FASTCALL,
     "around(original, before, after): a stand-in. state = before(args, kwargs); after(state, args, kwargs, result, "
     "failed)."},
    {"is_stand_in", as_method(is_stand_in), METH_O, "Whether a function is one of ours."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyObject* vectorcall(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* names) noexcept {
  static const auto found = reinterpret_cast<Vectorcall>(::dlsym(RTLD_DEFAULT, "PyObject_Vectorcall"));
  return found ? found(function, args, nargsf, names)
               : call_slowly(function, args, Call{nullptr, args, nargsf, names, nullptr, nullptr}.count(), names);
}

PyObject* Call::argument(Py_ssize_t at, const char* name) const noexcept {
  if (at < count()) return args[at];
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), name) == 0) return args[count() + i];
  return nullptr;
}

PyObject* stand_in(PyObject* original, Body body) noexcept { return make(type_for(original), original, body); }

bool stand_in_method(PyObject* type, const char* name, Body body) noexcept {
  const Ref before(PyObject_GetAttrString(type, name));
  const Ref after(before ? make(g_binding, before.get(), body) : nullptr);
  return after && PyObject_SetAttrString(type, name, after.get()) == 0;
}

int add_stand_in_functions(PyObject* module) {
  const Ref types(PyImport_ImportModule("types"));
  if (!types) return -1;
  g_method_type = PyObject_GetAttrString(types.get(), "MethodType");
  g_function_type = PyObject_GetAttrString(types.get(), "FunctionType");
  g_binding = make_type("stepscope._native.BindingStandIn", true);
  g_plain = make_type("stepscope._native.StandIn", false);
  const char* own[] = {"__reduce_ex__", "__reduce__", "__get__", "__deepcopy__"};
  for (int i = 0; i < 4; ++i) g_own[i] = PyUnicode_InternFromString(own[i]);
  if (!g_method_type || !g_function_type || !g_binding || !g_plain) return -1;
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
