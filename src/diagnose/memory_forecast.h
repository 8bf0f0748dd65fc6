// When memory that is known to grow reaches its limit, at the rate so far, and between which times: the rate has a
// range of its own (analyze/growth_track.h). Pure.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "analyze/growth_track.h"

namespace stepscope {

class FindingBuilder;

inline constexpr double kFarthestSeconds = 30 * 86400;  // what is further ahead is not said in words

// At the rate so far, at the highest and at the lowest that it may be.
struct Ahead {
  double expected = 0, low = 0, high = 0;
};

struct MemoryForecast {
  double limit_bytes = 0, left_bytes = 0;
  std::string of;           // whose limit: "the host"
  std::optional<int> rank;  // who reaches it; none: several together
  Ahead seconds;
  std::optional<Ahead> steps;  // where all that grow are known by steps
};

// Of those that share what is left. None where it may be that nothing grows.
std::optional<MemoryForecast> forecast(std::span<const GrowthVerdict* const> growers, double limit_bytes,
                                       double left_bytes);

// "12 min 10 s to 14 min 02 s"; one time where both read alike.
std::string range_text(const Ahead& seconds);

// As evidence: seconds_to_limit, steps_to_limit, each with _low and _high, and limit_bytes with whose it is.
void tell(FindingBuilder& finding, const MemoryForecast& forecast);

}  // namespace stepscope
