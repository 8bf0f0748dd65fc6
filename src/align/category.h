// The categories of the time ledger (docs/design.md, Ledger). For every rank and step they add up to wall time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stepscope {

enum class Category : uint8_t {
  kInputWait,
  kH2d,
  kForward,
  kBackward,
  kOptimizer,
  kCommTransfer,
  kStragglerWait,
  kHostPause,
  kCompile,
  kCheckpoint,
  kValidation,
  kLogging,
  kEpochStart,
  kUserCode,
  kStartup,
  kTeardown,
  kHang,
  kUnattributed,
  kUnresolved,  // waiting for ranks that were not seen, or transfer: which of them cannot be told
};
inline constexpr size_t kCategoryCount = 19;

inline constexpr std::array<std::string_view, kCategoryCount> kCategoryNames = {
    "input_wait", "h2d",      "forward",    "backward",     "optimizer", "comm_transfer", "straggler_wait",
    "host_pause", "compile",  "checkpoint", "validation",   "logging",   "epoch_start",   "user_code",
    "startup",    "teardown", "hang",       "unattributed", "unresolved"};

constexpr std::string_view name(Category c) { return kCategoryNames[static_cast<size_t>(c)]; }
constexpr size_t index(Category c) { return static_cast<size_t>(c); }

// What the stalls of a step are split into; everything else is a rank's own time.
constexpr bool is_of_stalls(Category c) {
  return c == Category::kCommTransfer || c == Category::kStragglerWait || c == Category::kUnresolved;
}

// Phases that may rightly last for minutes without a step.
constexpr bool takes_long_by_nature(Category c) {
  switch (c) {
    case Category::kCompile:
    case Category::kCheckpoint:
    case Category::kValidation:
    case Category::kLogging:
    case Category::kEpochStart:
    case Category::kUserCode: return true;
    default: return false;
  }
}

// Phases whose kernels the host launches one after another.
inline constexpr std::array kLaunchPhases = {Category::kForward, Category::kBackward, Category::kOptimizer};

// Nanoseconds per category.
using LedgerNs = std::array<int64_t, kCategoryCount>;

}  // namespace stepscope
