// Copies to the device and blocking syncs, seen at the tensor methods that Python code calls. Replaced methods are C
// method descriptors, as the originals are: torch.compile treats them alike.
#pragma once

#include "python_support.h"

namespace stepscope::recorder {

// Adds wrap_copies, wrap_syncs, wrap_synchronize, wrap_wait_points. 0, or -1 with a Python error set.
int add_copy_functions(PyObject* module);

}  // namespace stepscope::recorder
