// listen_for_stacks(): proves that this interpreter's frames can be read without its help, then listens for the agent's
// question (stack_signal.h).
//
// The proof: the frames of this very call are walked in memory and compared, line by line, with what Python says of
// them. Another layout than the expected one (another version, a build without GIL, a debug build) does not pass.
#include "python_hooks.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "recorder/signal_stack.h"
#include "recorder/stack_signal.h"

namespace stepscope::recorder {
namespace {

void* this_thread_state() { return PyGILState_GetThisThreadState(); }

struct ProvedFrame {
  std::string name, file;
  int line = 0;
};

// What Python says of the calling frames, innermost first.
bool frames_by_python(ProvedFrame (&out)[8], int& count, PyObject*& code_type) {
  PyFrameObject* top = PyEval_GetFrame();
  Py_XINCREF(top);
  Ref frame(reinterpret_cast<PyObject*>(top));
  for (count = 0; count < 8 && frame && frame.get() != Py_None; ++count) {
    auto* f = reinterpret_cast<PyFrameObject*>(frame.get());
    const Ref code(reinterpret_cast<PyObject*>(PyFrame_GetCode(f)));
    const Ref name(PyObject_GetAttrString(code.get(), "co_qualname"));
    const Ref file(PyObject_GetAttrString(code.get(), "co_filename"));
    if (!name || !file) return false;
    out[count] = {utf8(name.get()), utf8(file.get()), PyFrame_GetLineNumber(f)};
    code_type = reinterpret_cast<PyObject*>(Py_TYPE(code.get()));
    frame = Ref(PyObject_GetAttrString(frame.get(), "f_back"));
  }
  return count > 0;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// The first frames of a walk are the same as Python's.
bool same_frames(const char* text, size_t size, const ProvedFrame* frames, int count) {
  const char* at = text;
  const char* end = text + size;
  std::string file;
  for (int i = 0; i < count; ++i) {
    const auto* line_end = static_cast<const char*>(std::memchr(at, '\n', static_cast<size_t>(end - at)));
    if (!line_end) return false;
    const std::string line(at, line_end);
    at = line_end + 1;
    const size_t name_at = line.find(' ') + 1, file_at = line.find(' ', name_at) + 1;
    if (name_at == 0 || file_at == 0) return false;
    if (line.compare(file_at, std::string::npos, "\"") != 0) file = line.substr(file_at);
    const std::string name = line.substr(name_at, file_at - name_at - 1);
    const bool ascii = frames[i].file.find_first_of("\x80\xff") == std::string::npos;
    if (std::atoi(line.c_str()) != frames[i].line) return false;
    if (!ends_with(frames[i].name, name) || name.empty()) return false;
    if (ascii && !ends_with(frames[i].file, file)) return false;
  }
  return true;
}

std::string why_no_stacks(int major, int minor) {
  const FrameLayout* layout = frame_layout(major, minor);
  if (!layout) return "frames of Python " + std::to_string(major) + "." + std::to_string(minor) + " are not known";
  if (!can_read_itself()) return "this process may not read its own memory by process_vm_readv";
  ProvedFrame frames[8];
  int count = 0;
  PyObject* code_type = nullptr;
  if (!frames_by_python(frames, count, code_type)) return "no Python frame to try with";
  static char text[blackbox::kStackTextBytes];
  StackSource source{layout, reinterpret_cast<uintptr_t>(code_type), this_thread_state, nullptr};
  const WalkedStack walked =
      walk_frames(*layout, reinterpret_cast<uintptr_t>(this_thread_state()), source.code_type, text, sizeof text);
  if (!same_frames(text, walked.bytes, frames, std::min<int>(count, static_cast<int>(walked.frames))) ||
      walked.frames == 0)
    return "frames in memory are not where Python " + std::to_string(major) + "." + std::to_string(minor) + " has them";
  source.holds_gil = reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "PyGILState_Check"));
  return listen_for_stack_requests(source);
}

// listen_for_stacks(major, minor) -> "" or why not
PyObject* listen_for_stacks(PyObject*, PyObject* const* args, Py_ssize_t n) {
  std::string why;
  try {
    why = n < 2 ? "" : why_no_stacks(static_cast<int>(as_u64(args[0])), static_cast<int>(as_u64(args[1])));
  } catch (...) {
    why = "out of memory";
  }
  drop_error();
  return give(PyUnicode_DecodeUTF8(why.data(), static_cast<Py_ssize_t>(why.size()), "replace"));
}

// What a thread runs, behind a look at its stack: `self` is the function that was to be called.
PyObject* run_thread(PyObject* self, PyObject* args, PyObject* kwargs) {
  offer_thread();
  return PyObject_Call(self, args, kwargs);
}
PyMethodDef g_run_thread = {"run_thread", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(run_thread)),
                            METH_VARARGS | METH_KEYWORDS, nullptr};

// `self` starts a thread that calls its first argument.
PyObject* start_thread(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (PyTuple_Size(args) < 1 || !PyCallable_Check(PyTuple_GetItem(args, 0))) return PyObject_Call(self, args, kwargs);
  const Ref runs(PyCFunction_NewEx(&g_run_thread, PyTuple_GetItem(args, 0), nullptr));
  const Py_ssize_t size = PyTuple_Size(args);
  const Ref others(PyTuple_GetSlice(args, 1, size)), first(PyTuple_New(1));
  if (!runs || !others || !first) return nullptr;
  Py_INCREF(runs.get());
  PyTuple_SetItem(first.get(), 0, runs.get());
  const Ref all(PySequence_Concat(first.get(), others.get()));
  return all ? PyObject_Call(self, all.get(), kwargs) : nullptr;
}
PyMethodDef g_start_thread = {"start_thread", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(start_thread)),
                              METH_VARARGS | METH_KEYWORDS, nullptr};

// thread_starter(start) -> a function in its place, whose threads can be asked
PyObject* thread_starter(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (n < 1) {
    PyErr_SetString(PyExc_TypeError, "thread_starter(start)");
    return nullptr;
  }
  return PyCFunction_NewEx(&g_start_thread, args[0], nullptr);
}

PyMethodDef g_functions[] = {
    {"thread_starter", as_method(thread_starter), METH_FASTCALL,
     "thread_starter(start) -> a function in the place of start(function, ...): threads that it starts can be asked"},
    {"listen_for_stacks", as_method(listen_for_stacks), METH_FASTCALL,
     "listen_for_stacks(major, minor) -> '' or the reason why the agent cannot ask for stacks"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_stack_functions(PyObject* module) { return PyModule_AddFunctions(module, g_functions); }

}  // namespace stepscope::recorder
