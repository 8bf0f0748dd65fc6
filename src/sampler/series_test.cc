#include "sampler/series.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace stepscope {
namespace {

RC_GTEST_PROP(Series, FiguresCoverEverySample, (const std::vector<int>& values)) {
  RC_PRE(!values.empty());
  Series s(16);
  for (size_t i = 0; i < values.size(); ++i) s.add(static_cast<int64_t>(i), values[i]);
  const SampledSeries& f = s.facts();
  RC_ASSERT(f.count == values.size());
  RC_ASSERT(f.last == values.back());
  RC_ASSERT(f.min == *std::min_element(values.begin(), values.end()));
  RC_ASSERT(f.max == *std::max_element(values.begin(), values.end()));
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  RC_ASSERT(std::abs(f.mean - mean) <= 1e-6 * (1 + std::abs(mean)));
}

RC_GTEST_PROP(Series, StaysWithinItsCapacityAndInOrder, ()) {
  const size_t capacity = *rc::gen::inRange<size_t>(8, 64);
  const int n = *rc::gen::inRange(0, 5000);
  Series s(capacity);
  for (int i = 0; i < n; ++i) s.add(1'000'000'000LL * i, i);
  const auto& p = s.facts().points;
  RC_ASSERT(p.size() <= capacity);
  for (size_t i = 1; i < p.size(); ++i) RC_ASSERT(p[i].time_ns > p[i - 1].time_ns);
  if (n > 0) RC_ASSERT(p.size() >= std::min<size_t>(static_cast<size_t>(n), (capacity & ~size_t{1}) / 2));
}

RC_GTEST_PROP(Series, AStraightLineStaysStraight, ()) {
  const int n = *rc::gen::inRange(20, 5000);
  const int64_t base = 1LL << 60;  // beyond what a double holds to the nanosecond
  Series s(16);
  for (int i = 0; i < n; ++i) s.add(base + 1'000'000'001LL * i, 3.0 * i);
  for (const SamplePoint& p : s.facts().points) {
    RC_ASSERT(std::abs(p.value - 3.0 * static_cast<double>(p.time_ns - base) / 1'000'000'001.0) < 1e-6 * n + 1e-5);
  }
}

TEST(Series, PointsStandForEqualNumbersOfSamples) {
  Series s(8);
  for (int i = 0; i < 12; ++i) s.add(i, i);
  EXPECT_EQ(s.samples_per_point(), 2u);
  ASSERT_EQ(s.facts().points.size(), 6u);
  EXPECT_DOUBLE_EQ(s.facts().points[0].value, 0.5);
  EXPECT_DOUBLE_EQ(s.facts().points[5].value, 10.5);
}

TEST(Series, ValuesThatAreNoNumbersAreIgnored) {
  Series s;
  s.add(1, std::numeric_limits<double>::quiet_NaN());
  s.add(2, std::numeric_limits<double>::infinity());
  EXPECT_TRUE(s.facts().empty());
  EXPECT_FALSE(s.facts().mean_or_null().has_value());
}

TEST(Series, AllocatesOnce) {
  Series s(32);
  s.add(0, 1);
  const auto* data = s.facts().points.data();
  for (int i = 1; i < 10000; ++i) s.add(i, i);
  EXPECT_EQ(s.facts().points.data(), data);
}

}  // namespace
}  // namespace stepscope
