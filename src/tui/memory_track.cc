#include "tui/memory_track.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace stepscope::tui {
namespace {

std::optional<double> value_of(const std::map<std::string, std::optional<double>>& values, const char* name) {
  const auto found = values.find(name);
  return found == values.end() || !found->second || !std::isfinite(*found->second) ? std::nullopt : found->second;
}

}  // namespace

void MemoryTrack::add(const Snapshot& s) {
  std::optional<double> device;
  for (const DeviceMemoryRank& m : s.memory)
    if (m.allocated_bytes) device = std::max(device.value_or(0), *m.allocated_bytes);
  if (device) return add("device", *device);
  if (const auto process = value_of(s.process, "rss_bytes")) return add("process", *process);
  if (const auto host = value_of(s.system, "memory_used_bytes")) add("host", *host);
}

void MemoryTrack::add(const std::string& label, double bytes) {
  if (label != label_) {
    label_ = label;
    bytes_.clear();
    merged_ = 1, in_last_ = 0;
  }
  if (in_last_ > 0 && in_last_ < merged_) {
    bytes_.back() = std::max(bytes_.back(), bytes);
    ++in_last_;
    return;
  }
  if (bytes_.size() == kMaxPoints) {
    for (size_t i = 0; i < kMaxPoints / 2; ++i) bytes_[i] = std::max(bytes_[2 * i], bytes_[2 * i + 1]);
    bytes_.resize(kMaxPoints / 2);
    merged_ *= 2;
  }
  bytes_.push_back(bytes);
  in_last_ = 1;
}

}  // namespace stepscope::tui
