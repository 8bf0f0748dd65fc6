// When the ranks are asked to stamp the completion of their collectives: in samples, always the same steps on every
// rank, and more often while communication or a straggler is suspected. A stamp costs the rank about a microsecond, so
// most steps have none.
//
// Pure: time and counts come from outside. The count is the ranks' optimizer calls, which all of them share; what has
// been read lags behind what the ranks do, so that a window is asked for as far ahead as they may come until they look.
#pragma once

#include <cstdint>
#include <optional>

namespace stepscope {

class StampPolicy {
 public:
  static constexpr uint64_t kWindow = 8;                 // steps per sample
  static constexpr uint64_t kSkip = 16;                  // steps of warm-up that tell nothing
  static constexpr uint64_t kPeriodNs = 10'000'000'000;  // between samples
  static constexpr uint64_t kSuspiciousPeriodNs = 2'000'000'000;
  static constexpr double kReachS = 0.3;  // of steps that may pass before a rank sees the word

  // `optimizer_ends`: of the rank that is furthest. Returns up to which count to stamp, when it is time to ask.
  std::optional<uint64_t> ask(uint64_t optimizer_ends, bool suspicious, uint64_t now_ns);

 private:
  uint64_t seen_ends_ = 0, seen_ns_ = 0, asked_ns_ = 0;
  double ends_per_s_ = 0;
};

}  // namespace stepscope
