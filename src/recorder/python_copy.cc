#include "recorder/python_copy.h"

#include <cstring>

#include "base/clock.h"
#include "recorder/gpu_timeline.h"
#include "recorder/python_call_site.h"
#include "recorder/python_gpu.h"
#include "recorder/python_stand_in.h"
#include "recorder/recorder.h"

namespace stepscope::recorder {
namespace {

constexpr uint64_t kMarkedBytes = 64 * 1024;  // smaller copies get no device marks: they would cost more than the copy
constexpr uint64_t kPinnedAskedBytes = 4096;  // is_pinned() asks the driver, about 1 us
constexpr uint64_t kStallNs = 20'000;         // a shorter sync is no stall; it is only counted
constexpr int kMaxArgs = 14;

// ---- calling the original ----

// function(self, *args): `n` positional ones, then the values of `names`.
PyObject* call(PyObject* function, PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const Py_ssize_t total = n + (names ? PyTuple_Size(names) : 0);
  PyObject* small[kMaxArgs + 1];
  PyObject** stack = total <= kMaxArgs ? small : static_cast<PyObject**>(PyMem_Malloc(sizeof(PyObject*) * (total + 1)));
  if (!stack) return PyErr_NoMemory();
  stack[0] = self;
  if (total > 0) std::memcpy(stack + 1, args, sizeof(PyObject*) * total);
  PyObject* result = vectorcall(function, stack, static_cast<size_t>(n + 1), names);
  if (stack != small) PyMem_Free(stack);
  return result;
}

// ---- what kind of tensor, what kind of target ----

struct Names {
  PyObject *is_cpu, *is_cuda, *nbytes, *is_pinned, *type;
};
Names g_text;
PyObject* g_device_type = nullptr;  // torch.device
PyTypeObject* g_tensor_type = nullptr;

PyObject* g_plain_types[4];                     // seen before; owned
PyObject* g_disabled_torch_function = nullptr;  // torch._C._disabled_torch_function_impl

// Asking a tensor whose class has a __torch_function__ of its own would run the user's code: such tensors are left
// alone.
bool is_plain(PyObject* tensor) {
  PyTypeObject* type = Py_TYPE(tensor);
  if (type == g_tensor_type) return true;
  for (PyObject* known : g_plain_types)
    if (known == reinterpret_cast<PyObject*>(type)) return true;
  const Ref function(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), "__torch_function__"));
  if (!function) drop_error();
  if (!function || function.get() != g_disabled_torch_function) return false;
  for (PyObject*& free : g_plain_types) {
    if (free) continue;
    hold(free, reinterpret_cast<PyObject*>(type));
    break;
  }
  return true;
}

bool flag(PyObject* object, PyObject* name) {
  const Ref value(attribute(object, name));
  return value.get() == Py_True;
}

enum class Target { kOther, kCuda, kCpu };

Target target_of_text(PyObject* text) {
  const char* s = utf8(text);
  if (std::strncmp(s, "cuda", 4) == 0) return Target::kCuda;
  return std::strcmp(s, "cpu") == 0 ? Target::kCpu : Target::kOther;
}

Target target_of(PyObject* value) {
  if (PyUnicode_Check(value)) return target_of_text(value);
  if (reinterpret_cast<PyObject*>(Py_TYPE(value)) == g_device_type)
    return target_of_text(attribute(value, g_text.type).get());
  if (PyLong_Check(value) && !PyBool_Check(value)) return Target::kCuda;
  if (PyObject_TypeCheck(value, g_tensor_type) && is_plain(value)) {
    if (flag(value, g_text.is_cuda)) return Target::kCuda;
    if (flag(value, g_text.is_cpu)) return Target::kCpu;
  }
  return Target::kOther;
}

// `to(device, …)`, `to(other, …)`, `to(device=…)`.
Target target_of_args(PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (n > 0) return target_of(args[0]);
  for (Py_ssize_t i = 0; names && i < PyTuple_Size(names); ++i) {
    const char* key = utf8(PyTuple_GetItem(names, i));
    if (std::strcmp(key, "device") == 0 || std::strcmp(key, "other") == 0) return target_of(args[n + i]);
  }
  return Target::kOther;
}

// ---- spans ----

struct Copy {
  uint64_t bytes = 0;
  bool pinned = false, marked = false;
};

Copy copy_begin(PyObject* source) noexcept {
  const KeepError keep;
  Copy copy;
  copy.bytes = as_u64(attribute(source, g_text.nbytes).get());
  if (copy.bytes >= kPinnedAskedBytes) {
    const Ref pinned(PyObject_CallMethodObjArgs(source, g_text.is_pinned, nullptr));
    if (!pinned) drop_error();
    copy.pinned = pinned.get() == Py_True;
  }
  copy.marked = copy.bytes >= kMarkedBytes;
  const uint64_t now = monotonic_ns();
  mark_at(now, Kind::kH2d, Edge::kBegin, copy.bytes, 0, 0, 0, copy.pinned ? kH2dPinned : 0);
  if (copy.marked) gpu_boundary(Kind::kH2d, Edge::kBegin, copy.bytes, now);
  return copy;
}

void copy_end(const Copy& copy) noexcept {
  const uint64_t now = monotonic_ns();
  if (copy.marked) gpu_boundary(Kind::kH2d, Edge::kEnd, copy.bytes, now);
  mark_at(now, Kind::kH2d, Edge::kEnd, copy.bytes, 0, 0, 0, copy.pinned ? kH2dPinned : 0);
}

// Spans of syncs are written when they are over and only if they were long: at most 64 in 100 ms; the rest is summed up
// and told with the next one.
struct SyncBudget {
  uint64_t window_ns = 0, spans = 0, skipped = 0, skipped_ns = 0;
};
constinit SyncBudget g_sync;

void sync_done(uint64_t begin_ns) noexcept {
  const uint64_t end_ns = monotonic_ns();
  SyncBudget& b = g_sync;
  if (end_ns - b.window_ns > 100'000'000) b.window_ns = end_ns, b.spans = 0;
  if (end_ns - begin_ns < kStallNs || b.spans >= 64) {
    ++b.skipped;
    b.skipped_ns += end_ns - begin_ns;
    return;
  }
  ++b.spans;
  const uint64_t site = call_site();
  mark_at(begin_ns, Kind::kSync, Edge::kBegin, site);
  mark_at(end_ns, Kind::kSync, Edge::kEnd, site, b.skipped, b.skipped_ns);
  b.skipped = b.skipped_ns = 0;
}

// ---- the replaced methods ----

bool armed() { return g_gpu_armed.load(std::memory_order_relaxed); }

PyObject* call_copy(PyObject* original, PyObject* source, PyObject* self, PyObject* const* args, Py_ssize_t n,
                    PyObject* names) {
  const Copy copy = copy_begin(source);
  PyObject* result = call(original, self, args, n, names);
  copy_end(copy);
  return give(result);
}

PyObject* call_sync(PyObject* original, PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  const uint64_t begin_ns = monotonic_ns();
  PyObject* result = call(original, self, args, n, names);
  sync_done(begin_ns);
  return give(result);
}

PyObject *g_to = nullptr, *g_cuda = nullptr, *g_copy = nullptr;

PyObject* tensor_to(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (!armed()) return call(g_to, self, args, n, names);
  const Target target = target_of_args(args, n, names);
  if (target == Target::kOther || !is_plain(self)) return call(g_to, self, args, n, names);
  if (target == Target::kCuda && flag(self, g_text.is_cpu)) return call_copy(g_to, self, self, args, n, names);
  if (target == Target::kCpu && flag(self, g_text.is_cuda)) return call_sync(g_to, self, args, n, names);
  return call(g_to, self, args, n, names);
}

PyObject* tensor_cuda(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (armed() && is_plain(self) && flag(self, g_text.is_cpu)) return call_copy(g_cuda, self, self, args, n, names);
  return call(g_cuda, self, args, n, names);
}

PyObject* tensor_copy(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (armed() && n > 0 && is_plain(self) && PyObject_TypeCheck(args[0], g_tensor_type) && is_plain(args[0]) &&
      flag(self, g_text.is_cuda) && flag(args[0], g_text.is_cpu))
    return call_copy(g_copy, args[0], self, args, n, names);
  return call(g_copy, self, args, n, names);
}

// One C function per method: a method descriptor carries no closure.
constexpr int kSyncs = 8;
PyObject* g_sync_original[kSyncs];

template <int I>
PyObject* tensor_sync(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  if (armed() && is_plain(self) && flag(self, g_text.is_cuda))
    return call_sync(g_sync_original[I], self, args, n, names);
  return call(g_sync_original[I], self, args, n, names);
}

constexpr int kFast = METH_FASTCALL | METH_KEYWORDS;
PyMethodDef g_sync_methods[kSyncs] = {
    {"item", as_method(tensor_sync<0>), kFast, nullptr},      {"tolist", as_method(tensor_sync<1>), kFast, nullptr},
    {"cpu", as_method(tensor_sync<2>), kFast, nullptr},       {"__float__", as_method(tensor_sync<3>), kFast, nullptr},
    {"__int__", as_method(tensor_sync<4>), kFast, nullptr},   {"__bool__", as_method(tensor_sync<5>), kFast, nullptr},
    {"__index__", as_method(tensor_sync<6>), kFast, nullptr}, {"nonzero", as_method(tensor_sync<7>), kFast, nullptr},
};
PyMethodDef g_to_method = {"to", as_method(tensor_to), kFast, nullptr};
PyMethodDef g_cuda_method = {"cuda", as_method(tensor_cuda), kFast, nullptr};
PyMethodDef g_copy_method = {"copy_", as_method(tensor_copy), kFast, nullptr};

// Replaces type.<name> by a method descriptor; keeps the original in `slot`. False without an error when the type has
// no such method.
bool replace_method(PyObject* type, PyMethodDef& method, PyObject*& slot) {
  const Ref original(PyObject_GetAttrString(type, method.ml_name));
  if (!original) return drop_error(), false;
  if (slot) return true;  // replaced already
  // help() and inspect.signature() go on telling the original's text.
  const Ref doc(PyObject_GetAttrString(original.get(), "__doc__"));
  drop_error();
  if (const char* text = utf8(doc.get()); *text && !method.ml_doc) method.ml_doc = ::strdup(text);
  const Ref descriptor(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type), &method));
  if (!descriptor) return drop_error(), false;
  hold(slot, original.get());
  if (PyObject_SetAttrString(type, method.ml_name, descriptor.get()) == 0) return true;
  drop_error();
  hold(slot, nullptr);
  return false;
}

bool prepare(PyObject* tensor, PyObject* device) {
  g_text = {PyUnicode_InternFromString("is_cpu"), PyUnicode_InternFromString("is_cuda"),
            PyUnicode_InternFromString("nbytes"), PyUnicode_InternFromString("is_pinned"),
            PyUnicode_InternFromString("type")};
  if (PyErr_Occurred() || !PyType_Check(tensor)) return false;
  if (device) hold(g_device_type, device);
  Py_INCREF(tensor);
  g_tensor_type = reinterpret_cast<PyTypeObject*>(tensor);
  return true;
}

PyObject* wrap_copies(PyObject*, PyObject* args) {
  PyObject *tensor, *device, *disabled;
  if (!PyArg_ParseTuple(args, "OOO:wrap_copies", &tensor, &device, &disabled) || !prepare(tensor, device))
    return nullptr;
  hold(g_disabled_torch_function, disabled);
  long replaced = replace_method(tensor, g_to_method, g_to);
  replaced += replace_method(tensor, g_cuda_method, g_cuda);
  replaced += replace_method(tensor, g_copy_method, g_copy);
  return PyLong_FromLong(replaced);
}

PyObject* wrap_syncs(PyObject*, PyObject* tensor) {
  if (!prepare(tensor, nullptr)) return nullptr;
  long replaced = 0;
  for (int i = 0; i < kSyncs; ++i) replaced += replace_method(tensor, g_sync_methods[i], g_sync_original[i]);
  return PyLong_FromLong(replaced);
}

PyObject* synchronize(const Call& call) {
  if (!armed()) return call.proceed();
  const uint64_t begin_ns = monotonic_ns();
  PyObject* result = call.proceed();
  sync_done(begin_ns);
  return result;
}
PyObject* wrap_synchronize(PyObject*, PyObject* original) { return stand_in(original, synchronize); }

// ---- wait points of libraries ----

template <GpuWaitPoint kPoint>
PyObject* wait_point(const Call& call) {
  gpu_wait_point(kPoint, Edge::kBegin);
  PyObject* result = call.proceed();
  gpu_wait_point(kPoint, Edge::kEnd);
  return result;
}

PyObject* wrap_wait_points(PyObject*, PyObject* group_type) {
  static constexpr struct {
    const char* name;
    Body body;
  } kPoints[] = {{"wait_for_unshard", wait_point<GpuWaitPoint::kFsdpUnshard>},
                 {"finalize_backward", wait_point<GpuWaitPoint::kFsdpReduceScatter>},
                 // Waits for an earlier reduce-scatter before it starts the next.
                 {"post_backward", wait_point<GpuWaitPoint::kFsdpReduceScatter>}};
  long replaced = 0;
  for (const auto& point : kPoints) {
    if (stand_in_method(group_type, point.name, point.body))
      ++replaced;
    else
      drop_error();
  }
  return PyLong_FromLong(replaced);
}

PyMethodDef g_functions[] = {
    {"wrap_copies", as_method(wrap_copies), METH_VARARGS,
     "wrap_copies(Tensor, device, _disabled_torch_function_impl) -> int: spans around to(), cuda(), copy_() from host "
     "to device."},
    {"wrap_syncs", as_method(wrap_syncs), METH_O,
     "wrap_syncs(Tensor) -> int: spans around item(), cpu(), … of CUDA tensors."},
    {"wrap_synchronize", as_method(wrap_synchronize), METH_O, "wrap_synchronize(original) -> synchronize"},
    {"wrap_wait_points", as_method(wrap_wait_points), METH_O,
     "wrap_wait_points(FSDPParamGroup) -> int: device marks where compute waits for all-gathers and reduce-scatters."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_copy_functions(PyObject* module) { return PyModule_AddFunctions(module, g_functions); }

}  // namespace stepscope::recorder
