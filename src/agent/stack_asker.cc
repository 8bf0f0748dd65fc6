#include "agent/stack_asker.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

#include "base/file.h"
#include "blackbox/layout.h"
#include "sampler/process_glance.h"

namespace stepscope {
namespace {

constexpr uint64_t kNoAnswerNs = 1'000'000'000;

bool is_interpreter(const std::string& module) {
  return module.starts_with("python") || module.starts_with("libpython");
}

bool ask(int pid, uint32_t thread, int signal, uint16_t request) {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = static_cast<int>(blackbox::kStackRequest << 16 | request);
  return ::syscall(SYS_rt_tgsigqueueinfo, pid, static_cast<int>(thread), signal, &info) == 0;
}

}  // namespace

void StackAsker::take(Asked& asked, const RankTail& tail) {
  const auto reading = tail.stack();
  if (!reading || reading->request != asked.request) return;
  asked.open = false;
  ++asked.answers;
  ThreadStack& stack = asked.stack;
  stack.frames.clear();
  for (const blackbox::StackFrame& f : reading->frames) stack.frames.push_back({f.line, f.function, f.file});
  stack.module = module_at(tail.identity().pid, reading->pc);
  asked.with_gil += (reading->flags & blackbox::kStackHoldsGil) != 0;
  asked.in_interpreter += is_interpreter(stack.module);
  stack.holds_gil = asked.with_gil == asked.answers;
  stack.in_interpreter = asked.in_interpreter > 0;
}

void StackAsker::look(int rank, const RankTail& tail, uint64_t now_ns) {
  Asked& asked = asked_[rank];
  if (asked.open) take(asked, tail);
  const uint64_t pause_ns = asked.answers < kDense ? kPauseNs : kRareNs;
  if (asked.first_ns != 0 && now_ns - asked.asked_ns < pause_ns) return;
  if (asked.first_ns == 0) asked.first_ns = now_ns;
  asked.asked_ns = now_ns;
  const int pid = tail.identity().pid;
  const uint32_t known = tail.whereabouts().thread();
  const uint32_t thread = known ? known : static_cast<uint32_t>(pid);
  const int signal = tail.stack_signal();
  if (signal == 0) {
    asked.reason = tail.no_stacks();
    return;
  }
  if (!listens_to(pid, thread, signal)) {
    asked.reason = "the thread does not listen to signal " + std::to_string(signal);
    return;
  }
  if (asked.open) return;  // it has not handled the one before: another would wait behind it
  asked.request = next_request_++;
  asked.open = ask(pid, thread, signal, asked.request);
  if (!asked.open) asked.reason = "the signal could not be sent: " + errno_text(errno);
}

std::optional<ThreadStack> StackAsker::stack(int rank) const {
  const auto found = asked_.find(rank);
  if (found == asked_.end() || found->second.answers == 0) return std::nullopt;
  return found->second.stack;
}

std::string StackAsker::why_not(int rank, uint64_t now_ns) const {
  const auto found = asked_.find(rank);
  if (found == asked_.end() || found->second.answers > 0) return "";
  if (!found->second.reason.empty()) return found->second.reason;
  const bool late = found->second.open && now_ns - found->second.first_ns > kNoAnswerNs;
  return late ? "no answer: the thread handles no signals (stopped, or in the kernel)" : "";
}

}  // namespace stepscope
