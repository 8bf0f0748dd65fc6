#include "recorder/nccl_mode.h"

#include <dlfcn.h>
#include <sys/statvfs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "recorder/nccl_abi.h"

namespace stepscope::recorder::nccl {
namespace {

// Versions whose kernel clock works and is cheap enough for a window. 2.27.4 and older crash or lack timestamps; 2.31
// switches further device stores on with it (4 to 13 % on small all-reduces).
constexpr int kKernelClockFrom = 22705, kKernelClockBelow = 23100;
constexpr uint64_t kShmNeeded = 64ull << 20;  // it makes NCCL allocate there

const char* from_environment(const char* name) { return std::getenv(name); }

bool is(const char* value, const char* text) { return value && std::strcmp(value, text) == 0; }

Mode pick(int api, const char* asked, bool one_queue, std::string& reason) {
  if (is(asked, "off") || is(asked, "0")) return reason = "switched off by STEPSCOPE_NCCL", Mode::kOff;
  if (is(asked, "host")) return reason = "asked for", Mode::kHost;
  if (api < 5) return reason = "this NCCL does not tell the stream", Mode::kHost;
  if (is(asked, "events")) return reason = "asked for", Mode::kEvents;
  if (is(asked, "end_events")) return reason = "asked for", Mode::kEndEvents;
  if (one_queue) return reason = "CUDA_DEVICE_MAX_CONNECTIONS=1", Mode::kEndEvents;
  return reason = "auto", Mode::kEvents;
}

}  // namespace

Choice choose_mode(int api, int nccl_version, uint64_t shm_free_bytes, const char* (*env)(const char*)) {
  Choice choice;
  const char* asked = env("STEPSCOPE_NCCL");
  choice.mode = pick(api, asked, is(env("CUDA_DEVICE_MAX_CONNECTIONS"), "1"), choice.reason);
  if (!is(asked, name_of(choice.mode))) choice.timed_every = kTimedEvery;
  unsigned steps = 0, period = 0;
  if (const char* window = env("STEPSCOPE_NCCL_WINDOW"))
    if (std::sscanf(window, "%u/%u", &steps, &period) == 2 && steps > 0 && period > steps && period < 1'000'000)
      choice.window_steps = steps, choice.window_period = period;
  const char* clock = env("STEPSCOPE_NCCL_KERNEL_CLOCK");
  const bool known = nccl_version >= kKernelClockFrom && nccl_version < kKernelClockBelow;
  const bool useful = choice.mode == Mode::kHost || choice.mode == Mode::kEndEvents;
  choice.kernel_clock = is(clock, "on") ? choice.mode != Mode::kOff
                                        : !is(clock, "off") && useful && known && shm_free_bytes >= kShmNeeded;
  return choice;
}

Choice choose_mode(int api) {
  struct statvfs fs;
  const uint64_t free = ::statvfs("/dev/shm", &fs) == 0 ? static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize : 0;
  return choose_mode(api, loaded_nccl_version(), free, from_environment);
}

int mask_of(Mode mode, int api, bool kernel_clock_on) noexcept {
  if (mode == Mode::kOff) return 0;
  uint64_t mask = kGroup | kColl | kP2p;
  if (api >= 5) mask |= kGroupApi | kCollApi | kP2pApi;
  if (api >= 5 && mode != Mode::kHost) mask |= kKernelLaunch;
  if (api >= 6) mask |= kCeColl;
  if (kernel_clock_on) mask |= kKernelCh;
  return static_cast<int>(mask);
}

const char* name_of(Mode mode) noexcept {
  switch (mode) {
    case Mode::kEvents: return "events";
    case Mode::kEndEvents: return "end_events";
    case Mode::kHost: return "host";
    case Mode::kOff: break;
  }
  return "off";
}

int loaded_nccl_version() noexcept {
  void* found = ::dlsym(RTLD_DEFAULT, "ncclGetVersion");
  if (!found)
    if (void* library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD)) found = ::dlsym(library, "ncclGetVersion");
  int version = 0;
  if (found && reinterpret_cast<int (*)(int*)>(found)(&version) == 0) return version;
  return 0;
}

}  // namespace stepscope::recorder::nccl
