#include "agent/stack_question.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/file.h"
#include "blackbox/layout.h"
#include "sampler/process_glance.h"

namespace stepscope {
namespace {

bool queue_signal(int pid, uint32_t thread, int signal, uint16_t request) {
  siginfo_t info{};
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = static_cast<int>(blackbox::kStackRequest << 16 | request);
  return ::syscall(SYS_rt_tgsigqueueinfo, pid, static_cast<int>(thread), signal, &info) == 0;
}

}  // namespace

uint32_t training_thread(const RankTail& tail) {
  const uint32_t known = tail.whereabouts().thread();
  return known ? known : static_cast<uint32_t>(tail.identity().pid);
}

std::string ask_for_stack(const RankTail& tail, uint16_t request, uint32_t thread) {
  const int signal = tail.stack_signal();
  if (signal == 0) return tail.no_stacks();
  const int pid = tail.identity().pid;
  if (thread == 0) thread = training_thread(tail);
  if (!tail.may_ask(thread)) return "the thread has no stack for a signal's handler";
  if (!listens_to(pid, thread, signal)) return "the thread does not listen to signal " + std::to_string(signal);
  if (sleeps_for_a_time(pid, thread)) return "it sleeps in native code, and a signal would end its sleep";
  if (!queue_signal(pid, thread, signal, request)) return "the signal could not be sent: " + errno_text(errno);
  return "";
}

std::vector<CodeLine> frames_of(const blackbox::StackReading& reading) {
  std::vector<CodeLine> frames;
  for (const blackbox::StackFrame& f : reading.frames) frames.push_back({f.line, f.function, f.file});
  return frames;
}

bool is_interpreter(const std::string& module) {
  return module.starts_with("python") || module.starts_with("libpython");
}

}  // namespace stepscope
