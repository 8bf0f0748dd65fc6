// stepscope._native: the recorder as a Python extension (limited API 3.10).
#include "python_hooks.h"
#include "recorder/python_gpu.h"
#include "recorder/python_numerics.h"

namespace {

int fill(PyObject* module) {
  using namespace stepscope::recorder;
  for (auto* add : {add_stand_in_functions, add_mark_functions, add_step_functions, add_forward_functions,
                    add_backward_functions, add_collective_functions, add_wait_functions, add_loader_functions,
                    add_pause_functions, add_gpu_functions, add_stack_functions, add_numerics_functions})
    if (add(module) != 0) return -1;
  return 0;
}

PyModuleDef g_module = {
    PyModuleDef_HEAD_INIT,
    "stepscope._native",
    "Marks into the black box, and the hooks that torch calls. Nothing in here raises for a reason of its own.",
    -1,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
    nullptr,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) PyObject* PyInit__native(void) {
  PyObject* module = PyModule_Create(&g_module);
  if (module && fill(module) != 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
