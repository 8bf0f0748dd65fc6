// The process-wide state shared by recorder.cc (opens and closes) and marks.cc (hot path). Private to the recorder.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>

#include "blackbox/ring_writer.h"

namespace stepscope::recorder {

struct State {
  std::atomic<blackbox::RingWriter*> ring{nullptr};    // marks go here; null = off. The object is never destroyed
  std::atomic<blackbox::RingWriter*> worker{nullptr};  // worker_mark goes here
};
// Constant-initialised and trivially destroyed: usable before main and after static destruction.
extern constinit State g_state;

// Turns the recorder off for `why` (static text). Callable from anywhere, signal handlers included.
void turn_off(const char* why) noexcept;

// The calling thread's cached kernel id must be asked anew (child of a fork).
void forget_thread_id() noexcept;

}  // namespace stepscope::recorder
