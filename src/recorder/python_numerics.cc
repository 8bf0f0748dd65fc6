#include "recorder/python_numerics.h"

#include <bit>

#include "python_hooks.h"
#include "recorder/scalar.h"

namespace stepscope::recorder {
namespace {

constexpr Py_ssize_t kMostOutputs = 4;  // losses of one backward
constexpr uint64_t kEveryNs = 2'000'000, kBlock = 64, kMostStride = 64;

// In which steps numbers are read: in all of 2 ms or more, of shorter ones in every second, fourth, ... Ranks count
// alike, and those that choose different strides still have common steps.
struct Pace {
  uint64_t block_ns = 0, block_end = 0, stride = 1;

  bool due(uint64_t step) noexcept {
    if (step - block_end >= kBlock) [[unlikely]]
      choose(step);
    return step % stride == 0;
  }

 private:
  void choose(uint64_t step) noexcept {
    const uint64_t now = monotonic_ns(), passed_ns = now - block_ns;
    stride = 1;
    while (block_ns != 0 && stride < kMostStride && passed_ns * stride < kEveryNs * (step - block_end)) stride *= 2;
    block_ns = now, block_end = step;
  }
};
constinit Pace g_pace;

struct Torch {
  PyObject* types[4] = {};    // torch.float16, bfloat16, float32, float64; as ScalarFormat counts them
  PyObject* modes = nullptr;  // torch._C._len_torch_function_stack
};
constinit Torch g_torch;
PyObject *g_str_is_cpu = nullptr, *g_str_is_cuda = nullptr, *g_str_dtype = nullptr, *g_str_numel = nullptr,
         *g_str_data_ptr = nullptr, *g_str_is_pinned = nullptr;

ScalarFormat format_of(PyObject* dtype) {
  for (int i = 0; i < 4; ++i)
    if (dtype == g_torch.types[i]) return static_cast<ScalarFormat>(i + 1);
  return ScalarFormat::kNone;
}

Ref call_method(PyObject* object, PyObject* name) {
  Ref result(PyObject_CallMethodObjArgs(object, name, nullptr));
  if (!result) drop_error();
  return result;
}

bool flag(PyObject* object, PyObject* name) { return attribute(object, name).get() == Py_True; }

bool modes_are_active() {
  const Ref count(PyObject_CallFunctionObjArgs(g_torch.modes, nullptr));
  if (!count) drop_error();
  return as_u64(count.get(), 1) != 0;
}

void read(PyObject* tensor, ScalarOf what) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(tensor)) != g_hooks.tensor_type) return;
  const ScalarFormat format = format_of(attribute(tensor, g_str_dtype).get());
  if (format == ScalarFormat::kNone || as_u64(call_method(tensor, g_str_numel).get()) != 1) return;
  const bool on_gpu = g_gpu_armed.load(std::memory_order_relaxed);
  const bool cpu = flag(tensor, g_str_is_cpu);
  if (!cpu && !(on_gpu && flag(tensor, g_str_is_cuda))) return;
  // Beside a GPU, pinned memory may still be written to.
  if (cpu && on_gpu && call_method(tensor, g_str_is_pinned).get() != Py_False) return;
  const uint64_t address = as_u64(call_method(tensor, g_str_data_ptr).get());
  if (address == 0) return;
  if (!cpu) return gpu_read_scalar(address, format, what);
  const double value = scalar_at(reinterpret_cast<const void*>(static_cast<uintptr_t>(address)), format);
  mark(Kind::kScalar, Edge::kMark, static_cast<uint64_t>(what), std::bit_cast<uint64_t>(value));
}

// clip_grad_norm_(parameters, …) returns the norm.
PyObject* norm(const Call& call) {
  PyObject* result = call.proceed();
  if (result && t_hooks.compiling == 0) read_scalars(result, ScalarOf::kGradNorm);
  return give(result);
}

PyObject* wrap_norm(PyObject*, PyObject* original) { return stand_in(original, norm); }

// watch_numbers(float16, bfloat16, float32, float64, _len_torch_function_stack)
PyObject* watch_numbers(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n != 5) {
    PyErr_SetString(PyExc_TypeError, "watch_numbers() takes five arguments");
    return nullptr;
  }
  for (int i = 0; i < 4; ++i) hold(g_torch.types[i], args[i]);
  hold(g_torch.modes, args[4]);
  return none();
}

PyMethodDef g_functions[] = {
    {"watch_numbers", as_method(watch_numbers), METH_FASTCALL,
     "watch_numbers(float16, bfloat16, float32, float64, _len_torch_function_stack): losses are read from now on."},
    {"wrap_norm", as_method(wrap_norm), METH_O, "wrap_norm(original) -> callable: the norm it returns is read."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void read_scalars(PyObject* outputs, ScalarOf what) noexcept {
  if (!g_torch.modes || !outputs || !active() || !g_pace.due(g_hooks.optimizer_ends)) return;
  const KeepError keep;
  if (modes_are_active()) return;
  if (!PyTuple_Check(outputs)) return read(outputs, what);
  const Py_ssize_t count = PyTuple_Size(outputs);
  for (Py_ssize_t i = count < kMostOutputs ? count : kMostOutputs; i-- > 0;) read(PyTuple_GetItem(outputs, i), what);
}

int add_numerics_functions(PyObject* module) {
  g_str_is_cpu = PyUnicode_InternFromString("is_cpu");
  g_str_is_cuda = PyUnicode_InternFromString("is_cuda");
  g_str_dtype = PyUnicode_InternFromString("dtype");
  g_str_numel = PyUnicode_InternFromString("numel");
  g_str_data_ptr = PyUnicode_InternFromString("data_ptr");
  g_str_is_pinned = PyUnicode_InternFromString("is_pinned");
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
