#include "analyze/device_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "analyze/growth.h"

namespace stepscope {
namespace {

using Bytes = std::function<double(int step, double size)>;

struct Series {
  std::vector<StepRow> rows;
  Rows all;

  Series(int steps, const std::function<double(int)>& size_of, const Bytes& held, const Bytes& top, int rank = 0) {
    rows.resize(static_cast<size_t>(steps));
    for (int i = 0; i < steps; ++i) {
      StepRow& row = rows[static_cast<size_t>(i)];
      row.step = static_cast<uint32_t>(i);
      Cell& cell = row.cells.emplace_back();
      cell.rank = rank;
      cell.end_ns = i * 10'000'000ll;
      cell.tokens = size_of(i);
      if (held) cell.held_bytes = held(i, cell.tokens);
      cell.allocated_bytes = top ? top(i, cell.tokens) : cell.held_bytes;
    }
    for (StepRow& row : rows) all.add(row, 1);
  }
};

double slope_of(const MemoryTrack& t) { return theil_sen_slope(t.step, t.bytes); }

double fixed(int) { return 512; }

TEST(DeviceMemory, BoundariesAreNeverMixed) {
  Series s(40, fixed, [](int, double) { return 100.0; }, nullptr);
  for (size_t i = 0; i < 40; i += 2)
    s.rows[i].cells[0].allocated_bytes = 900;  // read near the top in every second step
  EXPECT_EQ(held_track(s.all, 0, 0).points(), 40u);
  const MemoryTrack top = top_track(s.all, 0, 0);
  EXPECT_EQ(top.points(), 20u);
  for (double b : top.bytes) EXPECT_DOUBLE_EQ(b, 900);
  EXPECT_TRUE(growth_track(s.all, 0, 0).held);
  EXPECT_EQ(held_track(s.all, 0, 30).points(), 10u);
  EXPECT_EQ(held_track(s.all, 5, 0).points(), 0u);  // a rank that is not there
}

TEST(DeviceMemory, TheTopIsTakenWhereNothingElseIsRead) {
  Series s(40, fixed, nullptr, [](int i, double) { return 100.0 + i; });
  const MemoryTrack t = growth_track(s.all, 0, 10);
  EXPECT_FALSE(t.held);
  EXPECT_EQ(t.points(), 30u);
  EXPECT_DOUBLE_EQ(t.seconds.back(), 0.29);
}

TEST(DeviceMemory, ASizeThatNeverChangesExplainsNothing) {
  Series s(100, fixed, [](int i, double) { return 1e9 + 8e6 * i; }, nullptr);
  const MemoryTrack t = held_track(s.all, 0, 0);
  EXPECT_TRUE(t.size.empty());
  EXPECT_EQ(size_correlation(t), 0);
  EXPECT_NEAR(slope_of(without_size(t)), 8e6, 1);
}

TEST(DeviceMemory, GrowthWithTheSizeIsExplainedAndALeakBesideItStays) {
  std::mt19937 random(3);
  std::lognormal_distribution<double> tokens(std::log(512), 0.3);
  std::vector<double> sizes;
  for (int i = 0; i < 200; ++i) sizes.push_back(std::round(tokens(random)));
  const auto size_of = [&](int i) { return sizes[static_cast<size_t>(i)]; };
  Series healthy(200, size_of, nullptr, [](int, double n) { return 1e9 + 2e6 * n; });
  const MemoryTrack plain = top_track(healthy.all, 0, 0);
  EXPECT_GT(size_correlation(plain), 0.999);
  EXPECT_NEAR(bytes_per_unit(plain), 2e6, 1);
  EXPECT_EQ(plain.unit, "token");
  EXPECT_NEAR(slope_of(without_size(plain)), 0, 1e3);
  Series leak(200, size_of, nullptr, [](int i, double n) { return 1e9 + 2e6 * n + 8e6 * i; });
  EXPECT_NEAR(slope_of(without_size(top_track(leak.all, 0, 0))), 8e6, 8e4);
}

TEST(DeviceMemory, SortedLengthsExplainWhatTheirSquareCan) {
  const auto sorted = [](int i) { return 256.0 + 8 * i; };
  Series lengths(150, sorted, nullptr, [](int, double n) { return 3e8 + 9e5 * n + 200 * n * n; });
  EXPECT_NEAR(slope_of(without_size(top_track(lengths.all, 0, 0))), 0, 1e4);
  const auto slowly = [](int i) { return 4096.0 + 4 * i; };  // 15 % longer at the end, ten times the memory
  Series leak(150, slowly, nullptr, [](int i, double) { return 1e9 + 6e7 * i; });
  EXPECT_NEAR(slope_of(without_size(top_track(leak.all, 0, 0))), 6e7, 1e5);
}

}  // namespace
}  // namespace stepscope
