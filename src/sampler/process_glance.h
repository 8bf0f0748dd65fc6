// One look at a process that may be stuck: what the kernel says of its training thread, and to which file an
// instruction belongs. From /proc, without stopping anything.
//
// Cost: three small files per glance; maps are read by module_at() only (about 1 ms). What cannot be read is empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace stepscope {

struct ProcessGlance {
  char state = 0;            // of the thread: R, S, D, T, t, Z; 0 = not readable
  uint64_t cpu_ticks = 0;    // of the thread, user and system
  std::string wait_channel;  // kernel function in which the thread sleeps; "" = runs, or not readable
};

// `thread` 0: the main thread. Nothing when the process is gone or another one has its pid (`start_ticks`, 0 = any).
std::optional<ProcessGlance> glance_at(int pid, uint64_t start_ticks, uint32_t thread);

// Where all threads of the process wait for locks or for each other; "" where one of them does not, or is not readable.
std::string lock_that_all_wait_for(int pid);

// The mapped file that holds this address: "libtorch_cpu.so", "python3.11"; "" = none, or not readable.
std::string module_at(int pid, uint64_t address);

// CPU time of the process's threads that are called as this one is (libraries name theirs), by thread id; at most
// kMostThreadsRead. Empty where nothing can be read.
inline constexpr int kMostThreadsRead = 256;
std::map<uint32_t, uint64_t> ticks_of_namesakes(int pid, uint32_t thread);

// Whether a signal would cut short what the thread sleeps in: a sleep for a length of time is not taken up again after
// a handler, as one until a moment is (Python's), and C code seldom looks. False where the kernel does not tell.
bool sleeps_for_a_time(int pid, uint32_t thread);

// Whether the thread catches this signal and does not block it: only then it may be sent one.
bool listens_to(int pid, uint32_t thread, int signal);

}  // namespace stepscope
