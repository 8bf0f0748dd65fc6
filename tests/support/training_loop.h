// Speaks the hooks' language to a StepBuilder: spans of given length, for tests of what becomes of them.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "align/step_builder.h"
#include "blackbox/event_kind.h"

namespace stepscope {

// Speaks the hooks' language: spans of given length on one thread.
class Loop {
 public:
  explicit Loop(uint32_t thread = 7) : thread_(thread) {}
  Loop& on(uint32_t thread) { return thread_ = thread, *this; }
  Loop& pass(int64_t us) { return t_ += static_cast<uint64_t>(us) * 1000, *this; }
  Loop& begin(Kind k, uint64_t a = 0, uint16_t flags = 0, uint64_t b = 0) { return send(k, Edge::kBegin, a, flags, b); }
  Loop& end(Kind k, uint64_t a = 0, uint16_t flags = 0) { return send(k, Edge::kEnd, a, flags, 0); }
  // An iterator of a loader that says how large its batches are.
  Loop& epoch(uint64_t loader, uint64_t batch) {
    builder.push({t_, pack_kind(Kind::kLoaderCreate, Edge::kBegin), 0, thread_, loader, 0, batch, 0});
    return end(Kind::kLoaderCreate, loader);
  }
  Loop& value(const char* name, double number) {
    const uint64_t id = std::hash<std::string>()(name);
    builder.push_name(static_cast<uint16_t>(NameKind::kValue), id, name);
    return mark(Kind::kValue, id, std::bit_cast<uint64_t>(number));
  }
  Loop& mark(Kind k, uint64_t a = 0, uint64_t b = 0) { return send(k, Edge::kMark, a, 0, b); }
  Loop& span(Kind k, int64_t us, uint64_t a = 0, uint16_t flags = 0) { return begin(k, a, flags).pass(us).end(k, a); }
  Loop& fetch(uint64_t loader = 1) { return span(Kind::kFetch, 100, loader); }
  Loop& forward(uint64_t module = 1, bool grad = true) {
    return span(Kind::kForward, 1000, module, grad ? kForwardGrad | kForwardTraining : 0).pass(10);
  }
  Loop& backward(bool accumulate = true) {
    begin(Kind::kBackward, accumulate);
    pass(2000).mark(Kind::kBackwardOwn).pass(5);
    return end(Kind::kBackward, accumulate);
  }
  Loop& optimizer(uint64_t id = 1) { return span(Kind::kOptimizer, 300, id).pass(50); }
  std::vector<RankStep> finish() {
    builder.finish(static_cast<int64_t>(t_));
    std::vector<RankStep> more = builder.take_completed();
    steps.insert(steps.end(), more.begin(), more.end());
    return steps;
  }
  StepBuilder builder;
  std::vector<RankStep> steps;
  uint64_t t_ = 5'000'000'000;

 private:
  Loop& send(Kind k, Edge e, uint64_t a, uint16_t flags, uint64_t b) {
    builder.push({t_, pack_kind(k, e), flags, thread_, a, b, 0, 0});
    for (RankStep& s : builder.take_completed()) steps.push_back(std::move(s));
    return *this;
  }
  uint32_t thread_;
};

inline int64_t sum(const LedgerNs& l) { return std::accumulate(l.begin(), l.end(), int64_t{0}); }

// Every nanosecond of a step is somewhere, and steps tile wall time.
inline void expect_closed_budget(const std::vector<RankStep>& steps) {
  for (size_t i = 0; i < steps.size(); ++i) {
    const RankStep& s = steps[i];
    EXPECT_EQ(s.step, i);
    EXPECT_EQ(sum(s.own) + s.stall_ns(), s.wall_ns()) << "step " << i;
    if (i) EXPECT_EQ(s.begin_ns, steps[i - 1].end_ns) << "steps tile wall time";
    ASSERT_EQ(s.segments.size(), s.stalls.size() + 1);
    LedgerNs together{};
    for (const LedgerNs& segment : s.segments)
      for (size_t c = 0; c < kCategoryCount; ++c) together[c] += segment[c];
    EXPECT_EQ(together, s.own);
  }
}

}  // namespace stepscope
