// Numbers that training computes anyway: the loss that backward is called on, the gradient norm that a program clips
// by.
//
// Only tensors that are torch.Tensor itself, of one floating point number, and only while no __torch_function__ mode is
// active: nothing of the user's runs, and what a subclass (DTensor, a fake tensor) holds is left alone. On the CPU the
// number is read from memory; on a GPU it is copied in the stream's order and told later, so that nothing waits.
// Steps shorter than 2 ms are sampled. GIL held; no failure reaches the caller. Cost of a number that is read: 0.5 us
// on the CPU (4 us with cold caches), 5 us on a GPU.
#pragma once

#include "blackbox/event_kind.h"
#include "recorder/python_support.h"

namespace stepscope::recorder {

// Of a tensor, or of the first few in a tuple of them; the first is the one that counts. A pending error stays.
void read_scalars(PyObject* outputs, ScalarOf what) noexcept;

int add_numerics_functions(PyObject* module);

}  // namespace stepscope::recorder
