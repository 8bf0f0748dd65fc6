// A CUDA driver without a GPU, for tests: built as libfake_cuda.so with the driver's symbol names, and driven through
// the fake_cuda_* functions of the same library.
//
// The GPU's clock is CLOCK_MONOTONIC scaled by a drift and shifted, or stands still until it is moved (manual mode).
// A stream is a moment until which it is busy; an event recorded on it completes then. Threads: any; one lock inside.
// Violations of the driver's rules are counted, not hidden: see FakeCudaCounts.
#pragma once

#include <cstdint>

extern "C" {

struct FakeCudaCounts {
  uint64_t created, destroyed, recorded, queried, elapsed;
  uint64_t implicit_contexts;    // a call that needs a context on a thread that has none
  uint64_t broken_captures;      // a query in the global mode while a stream is capturing
  uint64_t recorded_in_capture;  // event recorded on a capturing stream, or on the legacy one meanwhile
  uint64_t waits;                // calls that would block: synchronise functions; must stay 0
};

void fake_cuda_reset();
void fake_cuda_context(void* context);  // makes it current on the calling thread; null = none
void fake_cuda_clock(double drift_ppm, int64_t offset_ns);
void fake_cuda_manual(int64_t gpu_ns);  // the clock stands at gpu_ns from now on
int64_t fake_cuda_now();
void fake_cuda_work(void* stream, int64_t duration_ns);  // a kernel of that length is launched
int64_t fake_cuda_busy_until(void* stream);
void fake_cuda_capture(void* stream, int on);
void fake_cuda_fail(const char* function, int code, int times);  // its next calls return `code`; times < 0: all
FakeCudaCounts fake_cuda_counts();
}
