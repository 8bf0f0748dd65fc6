// Pauses that cut through phases: garbage collection and compilation.
#include <string_view>

#include "python_hooks.h"

namespace stepscope::recorder {
namespace {

constexpr uint64_t kShortGcNs = 50'000;  // young collections come by the thousand; shorter ones explain nothing

PyObject *g_str_generation = nullptr, *g_str_collected = nullptr, *g_str_trigger = nullptr, *g_str_compile_id = nullptr,
         *g_str_value = nullptr;

struct GcSpan {
  uint64_t begin_ns = 0, generation = 0;
  bool written = false;
};
GcSpan g_gc;

uint64_t entry(PyObject* info, PyObject* key) {
  return info && PyDict_Check(info) ? as_u64(PyDict_GetItemWithError(info, key)) : 0;
}

// gc.callbacks: (phase, info). A full collection is written when it begins (a rank may hang in it), others at their
// end. Python only prints what a callback raises, so that what is set aside stays there.
PyObject* gc_callback(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 2 || !active()) Py_RETURN_NONE;
  if (std::string_view(utf8(args[0])) == "start") {
    g_gc = {monotonic_ns(), entry(args[1], g_str_generation), false};
    if (g_gc.generation < 2) Py_RETURN_NONE;
    g_gc.written = true;
    mark_at(g_gc.begin_ns, Kind::kGc, Edge::kBegin, g_gc.generation);
    Py_RETURN_NONE;
  }
  if (g_gc.begin_ns == 0) Py_RETURN_NONE;
  const uint64_t end_ns = monotonic_ns();
  if (g_gc.written || end_ns - g_gc.begin_ns >= kShortGcNs) {
    if (!g_gc.written) mark_at(g_gc.begin_ns, Kind::kGc, Edge::kBegin, g_gc.generation);
    mark_at(end_ns, Kind::kGc, Edge::kEnd, g_gc.generation, entry(args[1], g_str_collected));
  }
  g_gc.begin_ns = 0;
  Py_RETURN_NONE;
}

uint64_t hash_text(const char* text) {
  uint64_t h = 0xcbf29ce484222325ull;
  for (; *text; ++text) h = (h ^ static_cast<unsigned char>(*text)) * 0x100000001b3ull;
  return h;
}

// torch 2.4 calls these without arguments.
void compile_mark(Edge edge, PyObject* const* args, Py_ssize_t n) {
  uint64_t trigger = 1, frame = 0;
  if (n > 0) {
    const Ref number = attribute(attribute(args[0], g_str_trigger).get(), g_str_value);
    trigger = as_u64(number.get(), 1);
    const Ref id = attribute(args[0], g_str_compile_id);
    if (id) frame = hash_text(utf8(id.get()));
  }
  mark(Kind::kCompile, edge, trigger, frame);
}

PyObject* compile_start(PyObject*, PyObject* const* args, Py_ssize_t n) {
  ++t_hooks.compiling;
  compile_mark(Edge::kBegin, args, n);
  return none();
}

PyObject* compile_end(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (t_hooks.compiling > 0) --t_hooks.compiling;
  compile_mark(Edge::kEnd, args, n);
  return none();
}

PyMethodDef g_functions[] = {
    {"gc_callback", as_method(gc_callback), METH_FASTCALL, "For gc.callbacks."},
    {"compile_start", as_method(compile_start), METH_FASTCALL, "For torch._dynamo.callback."},
    {"compile_end", as_method(compile_end), METH_FASTCALL, "For torch._dynamo.callback."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_pause_functions(PyObject* module) {
  g_str_generation = PyUnicode_InternFromString("generation");
  g_str_collected = PyUnicode_InternFromString("collected");
  g_str_trigger = PyUnicode_InternFromString("callback_trigger");
  g_str_compile_id = PyUnicode_InternFromString("compile_id");
  g_str_value = PyUnicode_InternFromString("value");
  return PyModule_AddFunctions(module, g_functions);
}

}  // namespace stepscope::recorder
