// The rank's side of "where are you?": a real-time signal whose handler writes the Python stack of the thread that it
// met into the black box (blackbox::StackBox). Works while the GIL is held, in a blocking call or in native code.
//
// Listens on a real-time signal that nobody else uses (disposition default, not blocked), with SA_RESTART: of blocking
// calls only those return early that no handler ever lets restart (sleep, usleep, poll, select of C code; Python's own
// go on by themselves). Whatever comes by that signal and is not the agent's question is left alone. Never blocks,
// allocates or raises; a second question while one is answered gets none. Runs on a stack of its own, or not at all
// (signal_stack.h). Forked children do not answer.
#pragma once

#include <cstdint>

#include "recorder/frame_walk.h"

namespace stepscope::recorder {

// What the handler needs of the interpreter; both functions must be safe in a signal handler.
struct StackSource {
  const FrameLayout* layout = nullptr;
  uintptr_t code_type = 0;
  void* (*this_thread_state)() = nullptr;  // of the calling thread, null when it is none of Python's
  int (*holds_gil)() = nullptr;            // may be null
};

// Installs the handler, once. "" or why there are no stacks (static text).
const char* listen_for_stack_requests(const StackSource& source) noexcept;

// The signal that is listened to, 0 = none. For a ring that is opened later.
int stack_signal() noexcept;

}  // namespace stepscope::recorder
