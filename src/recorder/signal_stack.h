// A stack of its own for the handler of stack_signal.h, thread by thread; threads that have one are listed in the black
// box (StackBox::ready), and the agent asks no other.
//
// Code that is generated while a program runs (oneDNN's kernels on AVX-512) uses the stack pointer as it likes: a
// signal that is handled on the thread's own stack overwrites its data. Seen: an nn.LSTM on the CPU whose heap was
// corrupted in one of four runs.
//
// An alternate stack that the program has set stays where it is large enough. Called on the thread itself; the first
// call maps kSignalStackBytes and ends with the thread, later ones cost a look at a thread-local. Never throws.
#pragma once

#include <cstddef>

namespace stepscope::recorder {

inline constexpr size_t kSignalStackBytes = size_t{64} << 10;

// Before the first offer; false: no thread can be asked.
bool prepare_signal_stacks() noexcept;
// The calling thread may be asked from now on, where there is room in the list.
void offer_thread() noexcept;
// A black box was opened: it lists the threads that were offered before.
void list_threads() noexcept;
// In the child of a fork: of the parent's threads none is there.
void forget_threads() noexcept;
// In the handler: whether it runs on a stack of its own. A thread that lost it is taken off the list.
bool on_signal_stack() noexcept;

}  // namespace stepscope::recorder
