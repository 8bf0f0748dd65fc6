// What a training thread was in, when: the changes of its phase, kept while somebody asks. A plain object; bounded
// (the oldest go first), constant time per record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "align/category.h"

namespace stepscope {

struct PhaseNow {
  Category phase = Category::kUnattributed;  // in a stall what it interrupts
  bool stalled = false;
  bool operator==(const PhaseNow&) const = default;
};

class PhaseTrack {
 public:
  static constexpr size_t kMostChanges = 8192;

  struct Stay {
    PhaseNow in;
    int64_t begin_ns = 0, end_ns = 0;
  };

  bool open() const { return !changes_.empty(); }
  void close() { changes_.clear(); }
  void note(int64_t at_ns, PhaseNow now);
  // Whether the records have come past the stay that this moment lies in. Only then stay_at() is final.
  bool passed(int64_t at_ns) const { return open() && changes_.back().first > at_ns; }
  // The stay that the moment lies in; nothing before the first that is kept.
  std::optional<Stay> stay_at(int64_t at_ns) const;
  void forget_before(int64_t at_ns);  // but for the stay that the moment lies in

 private:
  std::deque<std::pair<int64_t, PhaseNow>> changes_;
};

}  // namespace stepscope
