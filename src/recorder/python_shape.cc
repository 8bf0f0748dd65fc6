// What a batch holds, as far as one look tells: rows of its first tensor, and tokens where it has them. Only exact
// torch.Tensor objects are asked, so that no code of a subclass runs; nothing on a device is touched.
#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

constexpr int kMaxDepth = 2;    // ((x, y), z)
constexpr int kMostLooks = 24;  // at objects of a model's input

PyObject *g_str_shape = nullptr, *g_str_dtype = nullptr, *g_str_input_ids = nullptr, *g_str_data = nullptr;

bool is_tensor(PyObject* object) {
  return object && g_hooks.tensor_type && reinterpret_cast<PyObject*>(Py_TYPE(object)) == g_hooks.tensor_type;
}

BatchShape shape_of_tensor(PyObject* tensor, bool is_tokens) {
  BatchShape out;
  const Ref shape = attribute(tensor, g_str_shape);
  if (!shape || !PyTuple_Check(shape.get())) return out;
  const Py_ssize_t dims = PyTuple_Size(shape.get());
  if (dims < 1) return out;
  out.samples = as_u64(PyTuple_GetItem(shape.get(), 0));
  if (!is_tokens && dims == 2 && g_hooks.int64) is_tokens = attribute(tensor, g_str_dtype).get() == g_hooks.int64;
  if (!is_tokens) return out;
  out.tokens = 1;
  for (Py_ssize_t i = 0; i < dims; ++i) out.tokens *= as_u64(PyTuple_GetItem(shape.get(), i));
  return out;
}

uint64_t elements_of_tensor(PyObject* tensor) {
  const Ref shape = attribute(tensor, g_str_shape);
  if (!shape || !PyTuple_Check(shape.get())) return 0;
  uint64_t elements = 1;
  for (Py_ssize_t i = 0, dims = PyTuple_Size(shape.get()); i < dims; ++i)
    elements *= as_u64(PyTuple_GetItem(shape.get(), i));
  return elements;
}

// Of all tensors in it: the part of a graph, a mask or a length that differs from step to step may be any of them.
uint64_t elements_in(PyObject* object, int depth, int& looks) {
  if (--looks < 0) return 0;
  if (is_tensor(object)) return elements_of_tensor(object);
  if (depth == 0) return 0;
  uint64_t elements = 0;
  if (const bool list = PyList_Check(object); list || PyTuple_Check(object)) {
    for (Py_ssize_t i = 0, n = list ? PyList_Size(object) : PyTuple_Size(object); i < n && looks > 0; ++i)
      elements += elements_in(list ? PyList_GetItem(object, i) : PyTuple_GetItem(object, i), depth - 1, looks);
  } else if (PyDict_Check(object)) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (looks > 0 && PyDict_Next(object, &at, &key, &value)) elements += elements_in(value, depth - 1, looks);
  }
  return elements;
}

BatchShape shape_of_dict(PyObject* dict) {
  PyObject* ids = PyDict_GetItemWithError(dict, g_str_input_ids);
  if (is_tensor(ids)) return shape_of_tensor(ids, true);
  PyObject *key, *value;
  Py_ssize_t at = 0;
  while (PyDict_Next(dict, &at, &key, &value))
    if (is_tensor(value)) return shape_of_tensor(value, false);
  return {};
}

BatchShape look(PyObject* batch, int depth) {
  if (is_tensor(batch)) return shape_of_tensor(batch, false);
  if (PyDict_Check(batch)) return shape_of_dict(batch);
  if (PyList_Check(batch) || PyTuple_Check(batch)) {
    const bool list = PyList_Check(batch);
    if (depth == 0 || (list ? PyList_Size(batch) : PyTuple_Size(batch)) < 1) return {};
    return look(list ? PyList_GetItem(batch, 0) : PyTuple_GetItem(batch, 0), depth - 1);
  }
  // A UserDict, as Hugging Face's BatchEncoding is one: its dictionary, without asking its methods.
  const Ref own(PyObject_GenericGetDict(batch, nullptr));
  PyObject* data = own && PyDict_Check(own.get()) ? PyDict_GetItemWithError(own.get(), g_str_data) : nullptr;
  return data && PyDict_Check(data) ? shape_of_dict(data) : BatchShape();
}

void make_names() {
  if (g_str_shape) return;
  g_str_shape = PyUnicode_InternFromString("shape");
  g_str_dtype = PyUnicode_InternFromString("dtype");
  g_str_input_ids = PyUnicode_InternFromString("input_ids");
  g_str_data = PyUnicode_InternFromString("data");
}

}  // namespace

BatchShape shape_of_batch(PyObject* batch) noexcept {
  make_names();
  const BatchShape out = batch ? look(batch, kMaxDepth) : BatchShape();
  drop_error();
  return out;
}

uint64_t elements_of_input(PyObject* inputs) noexcept {
  if (!inputs || !PyTuple_Check(inputs)) return 0;
  make_names();
  int looks = kMostLooks;
  const uint64_t elements = elements_in(inputs, kMaxDepth + 1, looks);
  drop_error();
  return elements;
}

}  // namespace stepscope::recorder
