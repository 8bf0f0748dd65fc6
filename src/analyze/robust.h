// Robust statistics. Pure functions over small vectors; the argument is taken by value because it is reordered.
// Empty input gives NaN.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace stepscope {

// q-quantile by linear interpolation between order statistics (type 7 of Hyndman and Fan, 1996). O(n).
inline double quantile(std::vector<double> v, double q) {
  if (v.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double at = q * static_cast<double>(v.size() - 1);
  const auto low = static_cast<size_t>(at);
  std::nth_element(v.begin(), v.begin() + static_cast<long>(low), v.end());
  const double a = v[low];
  if (low + 1 >= v.size()) return a;
  const double b = *std::min_element(v.begin() + static_cast<long>(low) + 1, v.end());
  return a + (b - a) * (at - static_cast<double>(low));
}

inline double median(std::vector<double> v) { return quantile(std::move(v), 0.5); }

// Lower median: an element of the input, so that with two values the smaller one counts.
inline double lower_median(std::vector<double> v) {
  if (v.empty()) return std::numeric_limits<double>::quiet_NaN();
  const size_t at = (v.size() - 1) / 2;
  std::nth_element(v.begin(), v.begin() + static_cast<long>(at), v.end());
  return v[at];
}

// Median absolute deviation, scaled to the standard deviation of a normal distribution (factor 1.4826).
inline double mad_sigma(const std::vector<double>& v) {
  const double m = median(v);
  std::vector<double> d;
  d.reserve(v.size());
  for (double x : v) d.push_back(std::abs(x - m));
  return 1.4826 * median(std::move(d));
}

inline double mean(const std::vector<double>& v) {
  if (v.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}

}  // namespace stepscope
