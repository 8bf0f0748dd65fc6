// The NCCL profiler plugin: turns NCCL's callbacks into records of every collective and point-to-point operation.
//
//   NCCL, per operation (2.28 and newer, one thread)              what is kept or written
//   CollApi / P2pApi start ………………………………………………… time of the call, captured?
//   KernelLaunch start ─ cuLaunchKernelEx ─ KernelLaunch stop … own event before, own event after
//   Group start ─ Coll / P2p start, stop … ─ Group stop ………… NcclOp, NcclEnqueue per op; span submitted
//   (poller, later) ………………………………………………………… NcclTime per op of the launch
//   KernelCh start, state, stop (proxy thread, in windows) …… NcclTime from NCCL's own clock
//
// nccl_exports.cc translates the four interface versions into View and calls in here.
//
// Threads: callbacks come from the training thread, NCCL's launching and proxy threads. init and finalize take a lock
// (NCCL makes communicators rarely); nothing else locks, allocates, or waits. Failure: every callback returns success.
// After finalize, and in a forked child, events are refused with a null handle.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "recorder/nccl_abi.h"
#include "recorder/nccl_chain.h"
#include "recorder/nccl_kernel_clock.h"
#include "recorder/nccl_mode.h"
#include "recorder/nccl_objects.h"

namespace stepscope::recorder::nccl {

// One event as all versions tell it. Strings are NCCL's, valid during the call.
struct View {
  uint64_t type = 0;
  Handle parent = 0, parent_group = 0;
  int rank = -1, peer = 0, pid = 0;
  const char *func = nullptr, *datatype = nullptr, *algo = nullptr, *proto = nullptr;
  uint64_t count = 0, sequence = 0;
  uint8_t channels = 0;
  void* stream = nullptr;
  bool captured = false;
  uint64_t gpu_timer = 0;
  uint64_t comm_hash = 0;  // version 3 only
};

// What init is told; version 3 tells nothing.
struct CommView {
  int api = 0;
  uint64_t hash = 0;
  const char* name = nullptr;
  int nodes = 0, size = 0, rank = -1;
  LogFunction log = nullptr;
};

class Plugin {
 public:
  static Plugin* find_or_make() noexcept;  // made at the first init, never destroyed; null without memory
  static Plugin& instance() noexcept { return *find_or_make(); }  // after that

  void init(void** context, int* mask, const CommView& view) noexcept;
  void start(void* context, void** handle, const View& view, const void* descriptor) noexcept;
  void stop(void* handle) noexcept;
  void record_state(void* handle, int state, StateArgs* args) noexcept;
  void finalize(void* context) noexcept;

  // An optimizer step of this rank ended: decides for the next one whether its launches carry events and opens and
  // closes the windows of the kernel clock, at the same steps on all ranks. `stamping`: the agent asks for completions.
  void step_end(bool stamping) noexcept;

  // The poller resolved the launch whose first op is `cookie`.
  void span_resolved(Handle cookie, uint64_t begin_ns, uint64_t end_ns) noexcept;

  struct Counts {
    uint32_t comms = 0;
    uint64_t ops = 0, launches = 0, refused = 0, stride = 1;
    bool window = false;
  };
  Counts counts() noexcept;
  const Choice& choice() const noexcept { return choice_; }

  // The next instance() is a new one; the old one is left alone.
  static void reset_for_test() noexcept;

 private:
  Handle api_call(Comm& comm, const View& view, uint64_t now) noexcept;
  Handle launch(Comm& comm, const View& view, uint64_t now) noexcept;
  void launch_end(Comm& comm) noexcept;
  void close_launch(Comm& comm) noexcept;
  Handle op(Comm& comm, const View& view, uint64_t now) noexcept;
  void write_op(Comm& comm, const View& view, uint64_t key, uint64_t call_ns, uint64_t launch_ns,
                uint16_t flags) noexcept;
  void link_op(Comm& comm, Handle handle) noexcept;
  Handle copy_engine_op(Comm& comm, const View& view, uint64_t now) noexcept;
  Handle channel(Comm& comm, const View& view, uint64_t now) noexcept;
  void channel_end(Comm& comm, Event& event) noexcept;
  Handle chain_start(Comm& comm, Handle handle, const View& view, const void* descriptor) noexcept;
  void announce(Comm& comm, const char* name) noexcept;
  void join(void** context, int* mask, const CommView& view, Comm*& comm);
  void publish_mode(int api);
  bool sampled(uint64_t launch_number) const noexcept;
  void watch_rate() noexcept;
  void apply_mask() noexcept;

  EventRing events_;
  CommTable comms_;
  Chain chain_;
  KernelClock kernel_clock_;

  std::mutex setup_;  // init, finalize, masks
  Choice choice_;
  std::atomic<int> mode_{0};  // Mode; off until the first init
  int api_ = 0;
  int* mask_ = nullptr;
  bool published_ = false;

  std::atomic<bool> window_{false}, timed_{true};
  std::atomic<uint64_t> steps_{0}, ops_{0}, launches_{0}, refused_{0}, stride_{1}, rate_since_ns_{0};
};

// Also callable when NCCL never loaded the plugin.
void step_end(bool stamping) noexcept;

}  // namespace stepscope::recorder::nccl
