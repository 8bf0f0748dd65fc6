#include "agent/stamp_policy.h"

#include <cmath>

namespace stepscope {

std::optional<uint64_t> StampPolicy::ask(uint64_t optimizer_ends, bool suspicious, uint64_t now_ns) {
  if (optimizer_ends < seen_ends_) *this = {};  // another attempt: it counts from zero
  if (now_ns - seen_ns_ >= 500'000'000) {
    if (seen_ns_ > 0)
      ends_per_s_ = static_cast<double>(optimizer_ends - seen_ends_) * 1e9 / static_cast<double>(now_ns - seen_ns_);
    seen_ends_ = optimizer_ends;
    seen_ns_ = now_ns;
  }
  if (optimizer_ends < kSkip || ends_per_s_ <= 0) return std::nullopt;
  if (asked_ns_ > 0 && now_ns - asked_ns_ < (suspicious ? kSuspiciousPeriodNs : kPeriodNs)) return std::nullopt;
  asked_ns_ = now_ns;
  return optimizer_ends + kWindow + static_cast<uint64_t>(std::ceil(ends_per_s_ * kReachS));
}

}  // namespace stepscope
