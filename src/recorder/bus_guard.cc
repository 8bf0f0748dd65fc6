#include "recorder/bus_guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "recorder/state.h"

namespace stepscope::recorder {
namespace {

struct Range {
  std::atomic<uintptr_t> base{0};
  std::atomic<size_t> bytes{0};
  // Memory of the same size that waits to be moved there: a process at its limits can no longer map any. Costs address
  // space only, since nobody touches it. 0 = none.
  std::atomic<uintptr_t> spare{0};
};
constexpr size_t kMaxRanges = 8;
constinit Range g_ranges[kMaxRanges];
struct sigaction g_previous;  // written before the handler is installed
bool g_installed = false;
size_t g_next = 0;

// Everything below runs in a signal handler: system calls and atomics only.

constexpr int kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// False when there is no memory to put there: the faulting store would fault again, for ever.
bool replace(Range& range) {
  turn_off("the ring file was truncated");
  void* base = reinterpret_cast<void*>(range.base.load(std::memory_order_relaxed));
  const size_t bytes = range.bytes.load(std::memory_order_relaxed);
  void* spare = reinterpret_cast<void*>(range.spare.exchange(0, std::memory_order_acq_rel));
  if (spare && ::mremap(spare, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) == base) return true;
  return ::mmap(base, bytes, PROT_READ | PROT_WRITE, kAnonymous | MAP_FIXED, -1, 0) == base;
}

// Whether the last page of the mapping still has a file behind it. Reading it through the kernel cannot fault.
bool cut_short(const Range& range) {
  char byte;
  iovec here{&byte, 1};
  iovec there{reinterpret_cast<void*>(range.base.load(std::memory_order_relaxed) +
                                      range.bytes.load(std::memory_order_relaxed) - 1),
              1};
  return ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT;
}

bool answered(const siginfo_t& info) {
  const bool sent = info.si_code <= 0;  // by kill or raise: a handler before ours may pass a fault on that way
  const auto at = reinterpret_cast<uintptr_t>(info.si_addr);
  for (Range& range : g_ranges) {
    const uintptr_t base = range.base.load(std::memory_order_acquire);
    if (base == 0) continue;
    const bool ours = sent ? cut_short(range) : at >= base && at - base < range.bytes.load(std::memory_order_relaxed);
    if (ours) return replace(range);
  }
  return false;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if (g_previous.sa_flags & SA_SIGINFO) {
    g_previous.sa_sigaction(signal, info, context);
  } else if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    g_previous.sa_handler(signal);
  } else if (info->si_code <= 0 && g_previous.sa_handler == SIG_IGN) {
    return;
  } else {
    // The default action, by the kernel itself: the faulting instruction runs again, or the signal is sent again.
    struct sigaction fatal{};
    fatal.sa_handler = SIG_DFL;
    ::sigaction(signal, &fatal, nullptr);
    if (info->si_code <= 0) ::raise(signal);
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  if (!answered(*info)) pass_on(signal, info, context);
  errno = saved;
}

}  // namespace

void guard_mapping(void* base, size_t bytes) noexcept {
  Range& range = g_ranges[g_next++ % kMaxRanges];
  range.base.store(0, std::memory_order_release);
  if (void* old = reinterpret_cast<void*>(range.spare.exchange(0, std::memory_order_acq_rel)))
    ::munmap(old, range.bytes.load(std::memory_order_relaxed));
  void* spare = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kAnonymous, -1, 0);
  if (spare != MAP_FAILED) range.spare.store(reinterpret_cast<uintptr_t>(spare), std::memory_order_release);
  range.bytes.store(bytes, std::memory_order_release);
  range.base.store(reinterpret_cast<uintptr_t>(base), std::memory_order_release);
  if (g_installed) return;
  if (::sigaction(SIGBUS, nullptr, &g_previous) != 0) return;
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  g_installed = ::sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace stepscope::recorder
