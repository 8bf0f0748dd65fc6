// Advice on what is meant for debugging and was left on: anomaly_mode, profiler_on, launch_blocking, distributed_debug.

#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

struct Switch {
  const char* fact;
  Cause cause;
  const char* title;
  const char* action;
};
constexpr Switch kSwitches[] = {
    {"anomaly", Cause::kAnomalyMode,
     "Autograd's anomaly detection is on: each node of the graph keeps a Python traceback and is checked for NaN",
     "Leave it out of normal runs (torch.autograd.set_detect_anomaly, detect_anomaly); it makes steps several times as "
     "long"},
    {"profiler", Cause::kProfilerOn, "torch's profiler records the training",
     "Profile a few steps (schedule=torch.profiler.schedule(...)) and leave it out of normal runs"},
    {"launch_blocking", Cause::kLaunchBlocking,
     "CUDA_LAUNCH_BLOCKING=1: the host waits for each kernel before it launches the next",
     "Unset it: it is for finding the kernel that fails"},
    {"distributed_debug", Cause::kDistributedDebug,
     "TORCH_DISTRIBUTED_DEBUG=DETAIL: each collective is preceded by another one that checks it",
     "Unset it, or use INFO: it is for finding ranks that disagree"},
};

}  // namespace

std::vector<Advice> advice_on_switches(const Configuration& c) {
  std::vector<Advice> out;
  const ConfigFact* fact = c.find("switches");
  if (!fact) return out;
  for (const Switch& s : kSwitches)
    if (number(*fact, s.fact, 0) != 0)
      out.push_back({s.cause, s.title, s.action, {{"seen_at_step", {}, number(*fact, "step", 0), {}, ""}}});
  return out;
}

}  // namespace stepscope
