#include "align/span_stack.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

namespace stepscope {

namespace {

constexpr uint64_t bit(Kind kind) { return uint64_t{1} << (static_cast<unsigned>(kind) & 63); }

// trace_step bodies are not phases: time inside them without a phase is a gap like any other.
bool names_a_phase(const OpenSpan& span) { return span.kind != Kind::kStep; }

}  // namespace

void SpanStack::push(OpenSpan span) {
  if (open_.size() >= kMaxDepth) open_.erase(open_.begin());
  open_.push_back(span);
}

bool SpanStack::pop(Kind kind, uint64_t id, OpenSpan* closed) {
  for (size_t i = open_.size(); i-- > 0;) {
    if (open_[i].kind != kind || (id != 0 && open_[i].id != 0 && open_[i].id != id)) continue;
    if (closed) *closed = open_[i];
    open_.resize(i);
    return true;
  }
  return false;
}

void SpanStack::drop_unfinished_parts() {
  const auto part = [](const OpenSpan& s) {
    return s.kind == Kind::kForward || s.kind == Kind::kBackward || s.kind == Kind::kOptimizer ||
           s.kind == Kind::kScalerStep;
  };
  open_.erase(std::find_if(open_.begin(), open_.end(), part), open_.end());
}

OpenSpan* SpanStack::innermost(Kind kind) {
  for (size_t i = open_.size(); i-- > 0;)
    if (open_[i].kind == kind) return &open_[i];
  return nullptr;
}

bool SpanStack::inside_step() const {
  constexpr uint64_t kParts =
      bit(Kind::kStep) | bit(Kind::kFetch) | bit(Kind::kForward) | bit(Kind::kBackward) | bit(Kind::kOptimizer);
  return std::any_of(open_.begin(), open_.end(), [](const OpenSpan& s) { return (kParts & bit(s.kind)) != 0; });
}

bool SpanStack::inside(Kind kind) const {
  return std::any_of(open_.begin(), open_.end(), [&](const OpenSpan& s) { return s.kind == kind; });
}

bool SpanStack::covered() const {
  return std::any_of(open_.begin(), open_.end(), [](const OpenSpan& s) { return s.covers || s.interrupts; });
}

Now SpanStack::now(Category gap, bool tail_stalls) const {
  for (const OpenSpan& span : open_)
    if (span.covers) return {span.category};
  for (const OpenSpan& span : open_)
    if (span.interrupts) return {span.category};
  Category phase = gap;
  for (size_t i = open_.size(); i-- > 0;) {
    const OpenSpan& span = open_[i];
    if (!names_a_phase(span)) continue;
    if (span.kind == Kind::kWait) {
      for (size_t j = i; j-- > 0;)
        if (names_a_phase(open_[j]) && open_[j].kind != Kind::kWait) {
          phase = open_[j].category;
          break;
        }
      return {phase, true, phase};
    }
    if (span.kind == Kind::kBackward && span.own_ended && tail_stalls) return {span.category, true, span.category};
    // A closure's loss lies inside the optimizer's bracket.
    if (span.kind == Kind::kOptimizer && gap == Category::kForward) return {gap};
    return {span.category};
  }
  return {gap};
}

Category category_of_phase_name(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, Category>, 23> kKnown = {
      {{"validation", Category::kValidation},    {"validate", Category::kValidation},
       {"eval", Category::kValidation},          {"evaluation", Category::kValidation},
       {"test", Category::kValidation},          {"checkpoint", Category::kCheckpoint},
       {"save", Category::kCheckpoint},          {"checkpointing", Category::kCheckpoint},
       {"logging", Category::kLogging},          {"log", Category::kLogging},
       {"epoch_start", Category::kEpochStart},   {"forward", Category::kForward},
       {"backward", Category::kBackward},        {"optimizer", Category::kOptimizer},
       {"optimizer_step", Category::kOptimizer}, {"h2d", Category::kH2d},
       {"input", Category::kInputWait},          {"input_wait", Category::kInputWait},
       {"data", Category::kInputWait},           {"dataloader", Category::kInputWait},
       {"compile", Category::kCompile},          {"startup", Category::kStartup},
       {"stepscope", Category::kHostPause}}};  // the last one: what the observer itself does there
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const auto& [known, category] : kKnown)
    if (lower == known) return category;
  return Category::kUserCode;
}

}  // namespace stepscope
