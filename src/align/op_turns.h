// Which operation of a rank has followed which, over its whole life: what the rank has done before at a place is known
// however long ago that was.
//
// Plain, single-threaded, bounded: at most kMost turns, then it says that it is not complete. Logarithmic time.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

namespace stepscope {

class OpTurns {
 public:
  static constexpr size_t kMost = 256;
  struct Times {
    int64_t first_ns = 0, second_ns = 0;  // 0 = not yet
  };

  using Turns = std::map<std::pair<uint64_t, uint64_t>, Times>;

  const Turns& all() const { return times_; }
  bool complete() const { return complete_; }
  // As another node told.
  static OpTurns of(Turns turns, bool complete) {
    OpTurns out;
    out.times_ = std::move(turns);
    out.complete_ = complete;
    return out;
  }

  // `from`, `to`: the operations, by a number for what they are (IssuedOp::what).
  void add(uint64_t from, uint64_t to, int64_t at_ns) {
    const auto found = times_.find({from, to});
    if (found != times_.end()) {
      if (found->second.second_ns == 0) found->second.second_ns = at_ns;
      return;
    }
    if (times_.size() >= kMost)
      complete_ = false;
    else
      times_[{from, to}].first_ns = at_ns;
  }

  // Before that moment.
  bool taken_twice(uint64_t from, uint64_t to, int64_t before_ns) const {
    const auto found = times_.find({from, to});
    return found != times_.end() && found->second.second_ns > 0 && found->second.second_ns < before_ns;
  }
  bool never_taken(uint64_t from, uint64_t to, int64_t before_ns) const {
    const auto found = times_.find({from, to});
    return complete_ && (found == times_.end() || found->second.first_ns >= before_ns);
  }

 private:
  Turns times_;
  bool complete_ = true;
};

}  // namespace stepscope
