// mark, name, identity, life, open and close as Python functions.
#include <string_view>

#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

uint64_t arg(PyObject* const* args, Py_ssize_t n, Py_ssize_t i, uint64_t fallback = 0) {
  return i < n ? as_u64(args[i], fallback) : fallback;
}

int32_t int_arg(PyObject* const* args, Py_ssize_t n, Py_ssize_t i) {
  return i < n ? static_cast<int32_t>(as_u64(args[i], static_cast<uint64_t>(-1))) : kUnknown;
}

PyObject* py_mark(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (active())
    mark(static_cast<Kind>(arg(args, n, 0)), static_cast<Edge>(arg(args, n, 1)), arg(args, n, 2), arg(args, n, 3),
         arg(args, n, 4), arg(args, n, 5), static_cast<uint16_t>(arg(args, n, 6)));
  return none();
}

PyObject* py_mark_at(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (active())
    mark_at(arg(args, n, 0), static_cast<Kind>(arg(args, n, 1)), static_cast<Edge>(arg(args, n, 2)), arg(args, n, 3),
            arg(args, n, 4), arg(args, n, 5), arg(args, n, 6), static_cast<uint16_t>(arg(args, n, 7)));
  return none();
}

PyObject* py_name(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 3) Py_RETURN_FALSE;
  Py_ssize_t size = 0;
  const char* text = utf8(args[2], &size);
  return PyBool_FromLong(
      name(static_cast<NameKind>(as_u64(args[0])), as_u64(args[1]), std::string_view(text, static_cast<size_t>(size))));
}

// open(shm_dir=None, capacity=0): also records the evidence that came before.
PyObject* py_open(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (g_hooks.role != Role::kUndecided) Py_RETURN_FALSE;
  OpenOptions options;
  const char* folder = n > 0 ? utf8(args[0]) : "";
  if (*folder) options.shm_dir = folder;
  if (const uint64_t capacity = arg(args, n, 1)) options.capacity = capacity;
  g_hooks.open_tried = true;
  const bool on = open(options);
  if (on && g_hooks.evidence) {
    const uint64_t bits = g_hooks.evidence;
    g_hooks.evidence = 0;
    evidence_slow(bits);
  }
  return PyBool_FromLong(on);
}

PyObject* py_allow_open(PyObject*, PyObject*) {
  g_hooks.allowed = true;
  return none();
}

PyObject* py_close(PyObject*, PyObject*) {
  close();
  return none();
}

PyObject* py_discard(PyObject*, PyObject*) {
  discard();
  return none();
}

PyObject* py_evidence(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(static_cast<unsigned long long>(g_hooks.evidence));
}

PyObject* py_active(PyObject*, PyObject*) { return PyBool_FromLong(active()); }
PyObject* py_reason(PyObject*, PyObject*) {
  return PyUnicode_DecodeUTF8(reason(), static_cast<Py_ssize_t>(std::string_view(reason()).size()), "replace");
}
PyObject* py_path(PyObject*, PyObject*) { return PyUnicode_DecodeFSDefault(path()); }

PyObject* py_set_identity(PyObject*, PyObject* const* args, Py_ssize_t n) {
  g_hooks.identity_known = true;
  set_identity(int_arg(args, n, 0), int_arg(args, n, 1), int_arg(args, n, 2), int_arg(args, n, 3), int_arg(args, n, 4));
  return none();
}

PyObject* py_add_evidence(PyObject*, PyObject* const* args, Py_ssize_t n) {
  evidence(arg(args, n, 0));
  return none();
}

PyObject* py_set_life(PyObject*, PyObject* const* args, Py_ssize_t n) {
  set_life(arg(args, n, 0));
  return none();
}

PyObject* py_usage(PyObject*, PyObject*) {
  usage_mark();
  return none();
}

PyObject* py_now(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(monotonic_ns()); }

// (stamp_until_step, capture_request, layer_mode, stop), or None when off.
PyObject* py_control(PyObject*, PyObject*) {
  const blackbox::Control* c = control();
  if (!c) return none();
  auto word = [](const std::atomic<uint64_t>& w) {
    return static_cast<unsigned long long>(w.load(std::memory_order_relaxed));
  };
  return Py_BuildValue("(KKKK)", word(c->stamp_until_step), word(c->capture_request), word(c->layer_mode),
                       word(c->stop));
}

PyMethodDef g_functions[] = {
    {"mark", as_method(py_mark), METH_FASTCALL, "mark(kind, edge, a=0, b=0, c=0, d=0, flags=0): one record, now."},
    {"mark_at", as_method(py_mark_at), METH_FASTCALL, "mark_at(time_ns, kind, edge, a=0, b=0, c=0, d=0, flags=0)"},
    {"name", as_method(py_name), METH_FASTCALL, "name(kind, id, text) -> bool: text for an id."},
    {"open", as_method(py_open), METH_FASTCALL, "open(shm_dir=None, capacity=0) -> bool"},
    {"allow_open", as_method(py_allow_open), METH_NOARGS, "Hooks may open the black box when they see a training."},
    {"close", as_method(py_close), METH_NOARGS, "Marks an orderly end and turns marks off."},
    {"discard", as_method(py_discard), METH_NOARGS, "As close(); without evidence the file goes as well."},
    {"evidence", as_method(py_evidence), METH_NOARGS, "The evidence so far that this process is a rank."},
    {"active", as_method(py_active), METH_NOARGS, "True while marks are recorded."},
    {"reason", as_method(py_reason), METH_NOARGS, "Why marks are off, '' when on."},
    {"path", as_method(py_path), METH_NOARGS, "Path of the black box last opened, '' before."},
    {"set_identity", as_method(py_set_identity), METH_FASTCALL,
     "set_identity(rank, local_rank, world_size, node_rank, attempt); -1 leaves a field as it is."},
    {"add_evidence", as_method(py_add_evidence), METH_FASTCALL, "add_evidence(bits): why this is a rank."},
    {"set_life", as_method(py_set_life), METH_FASTCALL, "set_life(bits): teardown 1, closed 2, exception 4."},
    {"usage", as_method(py_usage), METH_NOARGS, "One Usage record of the calling thread."},
    {"now", as_method(py_now), METH_NOARGS, "CLOCK_MONOTONIC in ns."},
    {"control", as_method(py_control), METH_NOARGS, "What the agent asks for, or None."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_mark_functions(PyObject* module) { return PyModule_AddFunctions(module, g_functions); }

}  // namespace stepscope::recorder
