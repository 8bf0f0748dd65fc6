// Stands in for a function or method of torch and keeps all that a program can see of it.
//
// A stand-in is a C callable: it adds no frame (torch.jit looks frames up, warnings count them, tracebacks show them),
// and every attribute, __class__ included, is the original's: signature, source, doc, names, __code__, __dict__. It
// binds as a function does, pickles and copies by the original's name, and torch.compile, which takes it for the
// original, traces the original without our marks. Cost over the original: one C call, no argument is copied.
//
// A stand-in owns its original. GIL held; never raises an error of its own.
#pragma once

#include "python_support.h"

namespace stepscope::recorder {

// CPython's vectorcall, which the limited API of 3.10 does not declare. `nargsf` may carry the offset bit. A new
// reference.
PyObject* vectorcall(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* names) noexcept;

// One call of a stand-in. Lives as long as the call.
struct Call {
  PyObject* original;
  PyObject* const* args;
  size_t nargsf;
  PyObject* names;  // tuple of keyword names or null; their values follow the positional arguments
  PyObject *before, *after;

  PyObject* proceed() const noexcept { return vectorcall(original, args, nargsf, names); }
  Py_ssize_t count() const noexcept {
    return static_cast<Py_ssize_t>(nargsf & ~(size_t{1} << (8 * sizeof(size_t) - 1)));
  }
  // Positional argument `at`, else keyword `name`, else null. Borrowed.
  PyObject* argument(Py_ssize_t at, const char* name) const noexcept;
};
using Body = PyObject* (*)(const Call&);  // calls proceed() once and gives back its result, or null with an error set

// A stand-in for a function. Null with an error set.
PyObject* stand_in(PyObject* original, Body body) noexcept;

// Sets a stand-in in the place of type.<name>. False with an error set, also when there is no such method.
bool stand_in_method(PyObject* type, const char* name, Body body) noexcept;

// Adds around(original, before, after) and is_stand_in(function). 0, or -1 with an error set.
int add_stand_in_functions(PyObject* module);

}  // namespace stepscope::recorder
