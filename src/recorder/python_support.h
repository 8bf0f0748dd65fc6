// Small tools shared by the Python extension (python_*.cc). Limited API 3.10.
//
// Rules of every function that torch or Python calls: it returns what the original would, it never raises an error of
// ours, and an error of the user's that is pending stays as it is. What is no Exception is never ours: a signal handler
// (Ctrl-C, a scheduler's SIGTERM) spoke while code of ours ran, and the program must hear of it. So errors are dropped
// by drop_error() alone, and every hook ends in none() or give(). All of it runs with the GIL held, which is also what
// guards the state in python_hooks.h.
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <cstdint>

namespace stepscope::recorder {

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : p_(owned) {}
  Ref(Ref&& other) noexcept : p_(other.p_) { other.p_ = nullptr; }
  Ref& operator=(Ref&& other) noexcept {
    PyObject* old = p_;
    p_ = other.p_;
    other.p_ = nullptr;
    Py_XDECREF(old);
    return *this;
  }
  ~Ref() { Py_XDECREF(p_); }
  PyObject* get() const { return p_; }
  PyObject* release() {
    PyObject* p = p_;
    p_ = nullptr;
    return p;
  }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// Drops the pending error, if any. What is no Exception is set aside for this thread instead, until give(): Python must
// not be called with an error pending.
void drop_error() noexcept;

// Sets the pending error aside until give(), whatever it is.
void keep_error() noexcept;

// Whether something is set aside for this thread: what only the program can want to begin should not begin.
bool interrupted() noexcept;

// Ends a hook: `result` (may be null with an error pending), or what was set aside, raised in its place with the
// pending error as its context. A load and a branch when nothing is. Not for callbacks whose errors Python only prints.
extern constinit int g_interrupts;  // threads that have something set aside
PyObject* give_slow(PyObject* result) noexcept;
inline PyObject* give(PyObject* result) noexcept {
  if (g_interrupts == 0) [[likely]]
    return result;
  return give_slow(result);
}

// Sets a pending error aside and puts it back; an error raised in between goes the way of drop_error().
class KeepError {
 public:
  KeepError();
  ~KeepError();
  KeepError(const KeepError&) = delete;
  KeepError& operator=(const KeepError&) = delete;

 private:
  PyObject *type_, *value_, *trace_;
};

inline uint64_t id_of(const void* object) { return reinterpret_cast<uintptr_t>(object); }

// The low 64 bits of an int; `fallback` for anything else. Leaves no error.
inline uint64_t as_u64(PyObject* value, uint64_t fallback = 0) {
  if (!value) return fallback;
  const uint64_t n = PyLong_AsUnsignedLongLongMask(value);
  if (n == static_cast<uint64_t>(-1) && PyErr_Occurred()) {
    drop_error();
    return fallback;
  }
  return n;
}

// Attribute or null, never an error.
inline Ref attribute(PyObject* object, PyObject* name) {
  PyObject* value = object ? PyObject_GetAttr(object, name) : nullptr;
  if (!value) drop_error();
  return Ref(value);
}

// Replaces a reference held in the state.
inline void hold(PyObject*& slot, PyObject* value) {
  PyObject* old = slot;
  Py_XINCREF(value);
  slot = value;
  Py_XDECREF(old);
}

// None as the result of a hook, see give().
inline PyObject* none() {
  Py_INCREF(Py_None);
  return give(Py_None);
}

// UTF-8 of a str, "" for anything else. Lives as long as `text`.
inline const char* utf8(PyObject* text, Py_ssize_t* size = nullptr) {
  if (size) *size = 0;
  const char* s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, size) : nullptr;
  if (!s) drop_error();
  return s ? s : "";
}

template <class Function>
PyCFunction as_method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

// Adds `object` (reference stolen, may be null = error) under `name`.
inline int add_object(PyObject* module, const char* name, PyObject* object) {
  if (!object) return -1;
  const int rc = PyObject_SetAttrString(module, name, object);
  Py_DECREF(object);
  return rc;
}

}  // namespace stepscope::recorder
