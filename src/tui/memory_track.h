// How memory went while a view looked on: one figure of each snapshot, the most used first: of a device, else of a
// rank's process, else of the host. Bounded: when it is full, neighbours become one. Pure.
#pragma once

#include <string>
#include <vector>

#include "diagnose/snapshot.h"

namespace stepscope::tui {

class MemoryTrack {
 public:
  static constexpr size_t kMaxPoints = 512;

  void add(const Snapshot& snapshot);
  void add(const std::string& label, double bytes);

  const std::string& label() const { return label_; }  // "device", "process", "host"
  const std::vector<double>& bytes() const { return bytes_; }

 private:
  std::string label_;
  std::vector<double> bytes_;
  size_t merged_ = 1, in_last_ = 0;  // how many figures a point stands for
};

}  // namespace stepscope::tui
