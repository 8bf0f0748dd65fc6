// Reads the Python frames of a thread out of the interpreter's memory, without the GIL and without Python's help: for a
// signal handler that met the thread anywhere.
//
// Every byte is read by the kernel (process_vm_readv on the own process): a pointer that leads nowhere is an end of the
// walk, never a fault. Depth, table and text are bounded. Async-signal-safe: no allocation, no lock; about 1 KiB of
// stack. Cost: some 7 system calls per frame, 2 to 4 us. Which layout an interpreter has is a guess by its version that
// must be proved before use (python_stack.cc compares a walk with what Python says of the same frames).
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepscope::recorder {

// Places in the interpreter's structs, in bytes. CPython 3.11 to 3.13, 64 bit.
struct FrameLayout {
  int minor = 0;                // of Python 3
  uint16_t thread_frames = 0;   // in the thread state: the current frame, or the struct that has it
  int16_t frames_current = -1;  // in that struct; -1 = the thread state has the frame itself
  uint16_t frame_code = 0, frame_previous = 0, frame_instruction = 0, frame_owner = 0;
  int owner_of_c = -1;  // frames of this owner stand for C code
  uint16_t code_first_line = 0, code_file = 0, code_name = 0, code_lines = 0, code_instructions = 0;
  uint16_t text_ascii = 0, text_other = 0, text_utf8 = 0;  // in a str: data of ASCII, of others, cached UTF-8
};

// Null for a version that is not known.
const FrameLayout* frame_layout(int major, int minor) noexcept;

inline constexpr int kMaxFrames = 64;

struct WalkedStack {
  uint32_t frames = 0, bytes = 0;
  bool cut = false;
};

// Writes the frames of a thread, innermost first, as the lines of blackbox::StackBox. `code_type`: the type object of
// code objects; what is none is passed over.
WalkedStack walk_frames(const FrameLayout& layout, uintptr_t thread_state, uintptr_t code_type, char* text,
                        size_t room) noexcept;

// Whether this process may read itself that way at all (a sandbox may forbid the call).
bool can_read_itself() noexcept;

}  // namespace stepscope::recorder
