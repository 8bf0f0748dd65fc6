// Counts what several objects of one kind do in turns of their own (schedulers, optimizers) as the one that has gone
// farthest does: three optimizers that step once each have made one step.
//
// A plain single-threaded object. Bounded: the first kMost objects count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace stepscope {

class FarthestCount {
 public:
  static constexpr size_t kMost = 64;

  // The object does it once more. Whether the farthest has got farther by it.
  bool add(uint64_t id) {
    const auto known = counts_.find(id);
    if (known == counts_.end() && counts_.size() >= kMost) return false;
    const uint64_t count = ++counts_[id];
    if (count <= farthest_) return false;
    farthest_ = count;
    return true;
  }
  uint64_t farthest() const { return farthest_; }

 private:
  std::map<uint64_t, uint64_t> counts_;
  uint64_t farthest_ = 0;
};

}  // namespace stepscope
