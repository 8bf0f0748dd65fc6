#include "recorder/signal_stack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "recorder/state.h"

namespace stepscope::recorder {
namespace {

constexpr size_t kHandlerBytes = size_t{4} << 10;  // what handler and walk use, beside the kernel's frame

constinit std::atomic<bool> g_prepared{false};
constinit char g_not_ours = 0;
constinit void* const kNotOurs = &g_not_ours;  // in the place of a mapping: the program's own stack is used
pthread_key_t g_key;                           // of what a thread has mapped
constinit thread_local bool t_offered = false;
constinit std::atomic<uint32_t> g_ready[blackbox::kStackThreads];  // as in the black box, which may be opened later

uint32_t thread_id() { return static_cast<uint32_t>(::gettid()); }

void show(size_t place) noexcept {
  if (blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire))
    ring->header().stack.ready[place].store(g_ready[place].load(std::memory_order_acquire), std::memory_order_release);
}

void put_on_list() noexcept {
  const uint32_t mine = thread_id();
  for (size_t i = 0; i < blackbox::kStackThreads; ++i) {
    uint32_t nobody = 0;
    if (g_ready[i].compare_exchange_strong(nobody, mine, std::memory_order_acq_rel)) return show(i);
  }
}

void take_off_list() noexcept {
  for (size_t i = 0; i < blackbox::kStackThreads; ++i) {
    uint32_t mine = thread_id();
    if (g_ready[i].compare_exchange_strong(mine, 0, std::memory_order_acq_rel)) return show(i);
  }
}

// The thread ends: nobody may ask it any more, then the stack goes.
void end_thread(void* mapped) {
  take_off_list();
  stack_t now{};
  if (mapped == kNotOurs) return;
  if (::sigaltstack(nullptr, &now) == 0 && now.ss_sp == mapped) {
    stack_t off{};
    off.ss_flags = SS_DISABLE;
    if (::sigaltstack(&off, nullptr) != 0) return;
  }
  ::munmap(mapped, kSignalStackBytes);
}

size_t least_bytes() {
#ifdef AT_MINSIGSTKSZ
  const size_t frame = ::getauxval(AT_MINSIGSTKSZ);
#else
  const size_t frame = 0;
#endif
  return (frame ? frame : size_t{2048}) + kHandlerBytes;
}

}  // namespace

bool prepare_signal_stacks() noexcept {
  if (g_prepared.load(std::memory_order_acquire)) return true;
  if (::pthread_key_create(&g_key, end_thread) != 0) return false;
  g_prepared.store(true, std::memory_order_release);
  return true;
}

void offer_thread() noexcept {
  if (t_offered || !g_prepared.load(std::memory_order_acquire)) return;
  t_offered = true;
  if (::pthread_getspecific(g_key)) return put_on_list();  // of before a fork
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0) return;
  if (!(now.ss_flags & SS_DISABLE) && now.ss_size >= least_bytes()) {
    if (::pthread_setspecific(g_key, kNotOurs) == 0) put_on_list();
    return;
  }
  if (least_bytes() > kSignalStackBytes) return;
  void* mapped = ::mmap(nullptr, kSignalStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapped == MAP_FAILED) return;
  stack_t ours{};
  ours.ss_sp = mapped, ours.ss_size = kSignalStackBytes;
  if (::pthread_setspecific(g_key, mapped) != 0 || ::sigaltstack(&ours, nullptr) != 0) {
    ::pthread_setspecific(g_key, nullptr);
    ::munmap(mapped, kSignalStackBytes);
    return;
  }
  put_on_list();
}

void list_threads() noexcept {
  for (size_t i = 0; i < blackbox::kStackThreads; ++i) show(i);
}

void forget_threads() noexcept {
  for (std::atomic<uint32_t>& ready : g_ready) ready.store(0, std::memory_order_relaxed);
  t_offered = false;
}

bool on_signal_stack() noexcept {
  stack_t now{};
  if (::sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_ONSTACK)) return true;
  take_off_list();
  return false;
}

}  // namespace stepscope::recorder
