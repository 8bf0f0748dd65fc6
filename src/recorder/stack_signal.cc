#include "recorder/stack_signal.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>

#include "base/clock.h"
#include "recorder/signal_stack.h"
#include "recorder/state.h"

namespace stepscope::recorder {
namespace {

constexpr int kFirstTried = 7;  // above SIGRTMIN: the first ones are the most popular

constinit StackSource g_source;  // written before the handler is installed
constinit std::atomic<int> g_signal{0};
constinit std::atomic_flag g_answering;

uint64_t instruction_of(const void* context) {
#if defined(__x86_64__)
  return static_cast<uint64_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<const ucontext_t*>(context)->uc_mcontext.pc;
#else
  static_cast<void>(context);
  return 0;
#endif
}

void answer(blackbox::StackBox& box, uint32_t request, uint64_t pc) {
  box.answered.store(2 * request + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  uint32_t flags = 0;
  WalkedStack walked;
  if (void* state = g_source.this_thread_state()) {
    walked = walk_frames(*g_source.layout, reinterpret_cast<uintptr_t>(state), g_source.code_type, box.text,
                         sizeof box.text);
    if (walked.cut) flags |= blackbox::kStackCut;
    if (g_source.holds_gil && g_source.holds_gil()) flags |= blackbox::kStackHoldsGil;
  } else {
    flags = blackbox::kStackNoPython;
  }
  box.time_ns.store(monotonic_ns(), std::memory_order_relaxed);
  box.pc.store(pc, std::memory_order_relaxed);
  box.thread.store(static_cast<uint32_t>(::syscall(SYS_gettid)), std::memory_order_relaxed);
  box.flags.store(flags, std::memory_order_relaxed);
  box.frames.store(walked.frames, std::memory_order_relaxed);
  box.text_bytes.store(walked.bytes, std::memory_order_relaxed);
  box.answered.store(2 * request + 2, std::memory_order_release);
}

void handle(int, siginfo_t* info, void* context) {
  const auto value = static_cast<uint32_t>(info->si_value.sival_int);
  if (info->si_code != SI_QUEUE || value >> 16 != blackbox::kStackRequest) return;
  const int saved = errno;
  if (on_signal_stack() && !g_answering.test_and_set(std::memory_order_acquire)) {
    // Null in forked children, after close() and when the file was cut short.
    if (blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire))
      answer(ring->header().stack, value & 0xffff, instruction_of(context));
    g_answering.clear(std::memory_order_release);
  }
  errno = saved;
}

// One that nobody listens to and that this thread would hear.
int free_signal() {
  sigset_t blocked;
  if (::pthread_sigmask(SIG_SETMASK, nullptr, &blocked) != 0) return 0;
  for (int signal = SIGRTMIN + kFirstTried; signal <= SIGRTMAX; ++signal) {
    struct sigaction now{};
    if (::sigaction(signal, nullptr, &now) != 0) continue;
    const bool unused = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
    if (unused && sigismember(&blocked, signal) == 0) return signal;
  }
  return 0;
}

}  // namespace

const char* listen_for_stack_requests(const StackSource& source) noexcept {
  if (g_signal.load(std::memory_order_relaxed) != 0) return "";
  const int signal = free_signal();
  if (signal == 0) return "every real-time signal is in use";
  if (!prepare_signal_stacks()) return "no room for the handler's stacks";
  g_source = source;
  struct sigaction action{};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigfillset(&action.sa_mask);  // nothing of the program's runs on top of a half-written answer
  if (::sigaction(signal, &action, nullptr) != 0) return "the signal's handler could not be installed";
  g_signal.store(signal, std::memory_order_release);
  if (blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire))
    ring->header().stack.signal.store(static_cast<uint32_t>(signal), std::memory_order_release);
  offer_thread();
  return "";
}

int stack_signal() noexcept { return g_signal.load(std::memory_order_acquire); }

}  // namespace stepscope::recorder
