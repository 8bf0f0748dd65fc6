// How much the plugin asks of NCCL, decided once per communicator from versions and environment.
//
//   events      own CUDA events around every kernel launch (NCCL 2.28 and newer)
//   end_events  only after the launch: with CUDA_DEVICE_MAX_CONNECTIONS=1 an event before it would hold back compute
//   host        no device times of our own (NCCL 2.26 and 2.27 do not tell the stream)
//   off         nothing is asked for; a chained plugin is still served
//
// Events are put on the stream in one of kTimedEvery optimizer steps, the same on every rank, and in those for which
// the agent asks for completion stamps. A mode that was asked for times every step.
//
// The kernel clock (NCCL's own timestamps, which keep its proxy thread busy) is never on all the time: in the modes
// that lack a start time it is switched on for a few steps out of many, the same steps on every rank.
//
// STEPSCOPE_NCCL: auto (default), events, end_events, host, off. STEPSCOPE_NCCL_KERNEL_CLOCK: auto, off, on.
// STEPSCOPE_NCCL_WINDOW: "2/64" = 2 of every 64 optimizer steps.
#pragma once

#include <cstdint>
#include <string>

namespace stepscope::recorder::nccl {

enum class Mode : int { kOff, kHost, kEndEvents, kEvents };

inline constexpr uint32_t kTimedEvery = 16;

struct Choice {
  Mode mode = Mode::kOff;
  uint32_t timed_every = 1;   // steps per step with events
  bool kernel_clock = false;  // windows may be opened
  uint32_t window_steps = 2, window_period = 64;
  std::string reason;  // for the published fact
};

// `nccl_version` as ncclGetVersion says (22809 = 2.28.9), 0 = unknown. `shm_free_bytes` of /dev/shm.
Choice choose_mode(int api, int nccl_version, uint64_t shm_free_bytes, const char* (*env)(const char*));
Choice choose_mode(int api);  // with the real world

// Event types to ask for.
int mask_of(Mode mode, int api, bool kernel_clock_on) noexcept;
const char* name_of(Mode mode) noexcept;

int loaded_nccl_version() noexcept;  // 0 when NCCL is not found in this process

}  // namespace stepscope::recorder::nccl
