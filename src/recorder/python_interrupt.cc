#include "python_support.h"

#include <utility>

namespace stepscope::recorder {

constinit int g_interrupts = 0;

namespace {

struct Error {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
};
constinit thread_local Error t_interrupt;

Error fetch() {
  Error e;
  PyErr_Fetch(&e.type, &e.value, &e.trace);
  return e;
}

// As the raise statement does: what was on its way stays visible in the traceback.
void chain(Error& newer, Error older) {
  if (!older.type) return;
  PyErr_NormalizeException(&older.type, &older.value, &older.trace);
  PyErr_NormalizeException(&newer.type, &newer.value, &newer.trace);
  if (older.trace && older.value) PyException_SetTraceback(older.value, older.trace);
  if (newer.value && older.value != newer.value) {
    PyException_SetContext(newer.value, older.value);  // takes the reference
  } else {
    Py_XDECREF(older.value);
  }
  Py_XDECREF(older.type);
  Py_XDECREF(older.trace);
}

}  // namespace

void keep_error() noexcept {
  if (!PyErr_Occurred()) return;
  Error newer = fetch();
  Error older = std::exchange(t_interrupt, {});
  if (!older.type) ++g_interrupts;
  chain(newer, older);
  t_interrupt = newer;
}

void drop_error() noexcept {
  if (!PyErr_Occurred()) return;
  if (PyErr_ExceptionMatches(PyExc_Exception)) return PyErr_Clear();
  keep_error();
}

bool interrupted() noexcept { return g_interrupts > 0 && t_interrupt.type; }

PyObject* give_slow(PyObject* result) noexcept {
  if (!t_interrupt.type) return result;
  const Error older = fetch();
  Py_XDECREF(result);
  Error newer = std::exchange(t_interrupt, {});
  --g_interrupts;
  chain(newer, older);
  PyErr_Restore(newer.type, newer.value, newer.trace);
  return nullptr;
}

KeepError::KeepError() { PyErr_Fetch(&type_, &value_, &trace_); }

KeepError::~KeepError() {
  drop_error();
  PyErr_Restore(type_, value_, trace_);
}

}  // namespace stepscope::recorder
