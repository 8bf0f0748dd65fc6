// The recorder as a shared object of its own, as NCCL sees it: for tests that open and close it. Its marks go to a real
// black box; the functions below drive what Python drives in the product.
#include "recorder/gpu_timeline.h"
#include "recorder/nccl_plugin.h"
#include "stepscope/stepscope.h"

#define FAKE_EXPORT extern "C" __attribute__((visibility("default")))

namespace recorder = stepscope::recorder;

FAKE_EXPORT int fake_plugin_start() { return recorder::gpu_arm() && recorder::gpu_try_start(); }
FAKE_EXPORT void fake_plugin_stop() { recorder::gpu_stop("test ends"); }
FAKE_EXPORT int fake_plugin_mark(int kind, int edge, uint64_t id, void* stream) {
  return recorder::gpu_mark(static_cast<stepscope::Kind>(kind), static_cast<stepscope::Edge>(edge), id, stream);
}
FAKE_EXPORT void fake_plugin_step_end() { recorder::nccl::step_end(false); }
FAKE_EXPORT int fake_plugin_state() { return static_cast<int>(recorder::gpu_state()); }
