#include "agent/stack_asker.h"

#include "agent/stack_question.h"
#include "blackbox/layout.h"
#include "sampler/process_glance.h"

namespace stepscope {
namespace {

constexpr uint64_t kNoAnswerNs = 1'000'000'000;

}  // namespace

void StackAsker::take(Asked& asked, const RankTail& tail) {
  const auto reading = tail.stack();
  if (!reading || reading->request != asked.request) return;
  asked.open = false;
  ++asked.answers;
  ThreadStack& stack = asked.stack;
  stack.frames = frames_of(*reading);
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
  if (asked.open) return;  // it has not handled the one before: another would wait behind it
  asked.request = next_request_++ % kLineRequests;
  const std::string reason = ask_for_stack(tail, asked.request);
  asked.open = reason.empty();
  if (!asked.open) asked.reason = reason;
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
