// Small tools shared by the Python extension (python_*.cc). Limited API 3.10.
//
// Rules of every function that torch or Python calls: it returns what the original would, it never raises an error of
// ours, and an error of the user's that is pending stays as it is. All of it runs with the GIL held, which is also what
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

// Sets a pending error aside and puts it back; an error raised in between is dropped.
class KeepError {
 public:
  KeepError() { PyErr_Fetch(&type_, &value_, &trace_); }
  ~KeepError() { PyErr_Restore(type_, value_, trace_); }
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
    PyErr_Clear();
    return fallback;
  }
  return n;
}

// Attribute or null, never an error.
inline Ref attribute(PyObject* object, PyObject* name) {
  PyObject* value = object ? PyObject_GetAttr(object, name) : nullptr;
  if (!value) PyErr_Clear();
  return Ref(value);
}

// Replaces a reference held in the state.
inline void hold(PyObject*& slot, PyObject* value) {
  PyObject* old = slot;
  Py_XINCREF(value);
  slot = value;
  Py_XDECREF(old);
}

inline PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}

// UTF-8 of a str, "" for anything else. Lives as long as `text`.
inline const char* utf8(PyObject* text, Py_ssize_t* size = nullptr) {
  if (size) *size = 0;
  const char* s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, size) : nullptr;
  if (!s) PyErr_Clear();
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
