#include "report/figures.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string_view>

#include "report/ledger_bar.h"

namespace stepscope {
namespace {

TEST(Figures, NotMeasuredIsADashNeverZero) {
  EXPECT_EQ(format_ms(std::nullopt), "–");
  EXPECT_EQ(format_share(std::nan("")), "–");
  EXPECT_EQ(format_bytes(std::nullopt), "–");
  EXPECT_EQ(format_value("cpu_share", INFINITY), "–");
}

TEST(Figures, TimesReadWithThreeDigits) {
  EXPECT_EQ(format_ms(0.042), "0.04 ms");
  EXPECT_EQ(format_ms(51.94), "51.9 ms");
  EXPECT_EQ(format_ms(99.96), "100 ms");
  EXPECT_EQ(format_ms(1250), "1.25 s");
  EXPECT_EQ(format_ms_bare(1250), "1250");
  EXPECT_EQ(format_seconds(31.24), "31.2 s");
  EXPECT_EQ(format_seconds(245), "4 min 05 s");
  EXPECT_EQ(format_seconds(11520), "3 h 12 min");
}

TEST(Figures, SharesAndSkew) {
  EXPECT_EQ(format_share(0.213), "21.3 %");
  EXPECT_EQ(format_share(0.0001), "<0.1 %");
  EXPECT_EQ(format_share(0.0), "0.0 %");
  EXPECT_EQ(format_percent(0.213), "21 %");
  EXPECT_EQ(format_percent(0.034), "3.4 %");
  EXPECT_EQ(format_steps(1), "1 step");
  EXPECT_EQ(format_steps(0), "0 steps");
  EXPECT_EQ(format_steps(1234), "1,234 steps");
  EXPECT_EQ(format_skew(346.2), "+346 %");
  EXPECT_EQ(format_skew(-0.2), "+0 %");
}

TEST(Figures, UnitsComeFromTheName) {
  EXPECT_EQ(format_value("rss_peak_bytes", 1610612736.0), "1.50 GiB");
  EXPECT_EQ(format_value("stall_ms", 3.1), "3.10 ms");
  EXPECT_EQ(format_value("wait_share", 0.5), "50.0 %");
  EXPECT_EQ(format_value("slower_in_share_of_steps", 0.98), "98.0 % of steps");
  EXPECT_EQ(value_label("slower_in_share_of_steps"), "slower in");
  EXPECT_EQ(format_value("input_wait_ms_per_step", 12.0), "12.0 ms per step");
  EXPECT_EQ(value_label("input_wait_ms_per_step"), "input wait");
  EXPECT_EQ(format_value("steps", 1234567), "1,234,567");
  EXPECT_EQ(value_label("rss_peak_bytes"), "RSS peak");
  EXPECT_EQ(value_label("samples_per_s"), "samples");
  EXPECT_EQ(format_value("mfu", 0.412), "41.2 %");
  EXPECT_EQ(value_label("mfu"), "MFU");
  EXPECT_EQ(format_value("flops_per_s", 3.2e14), "320 TFLOP/s");
  EXPECT_EQ(format_value("flops_per_s", 12.0), "12.0 FLOP/s");
  EXPECT_EQ(category_label("straggler_wait"), "straggler wait");
}

TEST(Figures, EveryUnitIsWrittenOut) {
  EXPECT_EQ(format_value("temperature_max_c", 68.0), "68.0 °C");
  EXPECT_EQ(format_value("power_limit_w", 400.0), "400 W");
  EXPECT_EQ(format_value("sm_clock_mhz", 1410.0), "1410 MHz");
  EXPECT_EQ(format_value("read_bytes_per_s", 2'288'600.0), "2.18 MiB/s");
  EXPECT_EQ(format_value("bytes_per_s", 1024.0), "1.00 KiB/s");
  EXPECT_EQ(format_value("bytes_per_step", 2048.0), "2.00 KiB per step");
  EXPECT_EQ(format_value("bus_gb_per_s", 1.073741824), "1.00 GiB/s") << "gb in a name means powers of ten";
  EXPECT_EQ(format_value("throttled_ms_per_s", 12.0), "12.0 ms per s");
  EXPECT_EQ(format_value("involuntary_switches_per_s", 1234.0), "1,234/s");
  EXPECT_EQ(format_value("child_processes_cpu_cores", 1.5), "1.50 cores");
  EXPECT_EQ(format_value("seconds_to_limit", 245.0), "4 min 05 s");
  EXPECT_EQ(value_label("gpu_temperature_max_c"), "GPU temperature max");
  EXPECT_EQ(value_label("involuntary_switches_per_s"), "involuntary switches");
  EXPECT_EQ(value_label("power_limit_w"), "power limit");
}

TEST(Figures, DurationsUpToDays) { EXPECT_EQ(format_seconds(4 * 86'400 + 2 * 3600), "4 days 2 h"); }

TEST(Figures, RanksAreJoinedIntoRuns) {
  EXPECT_EQ(format_ranks({3}), "rank 3");
  EXPECT_EQ(format_ranks({2, 0, 3}), "ranks 0, 2, 3");
  EXPECT_EQ(format_ranks({0, 1, 2, 3, 7}), "ranks 0–3, 7");
  EXPECT_EQ(format_ranks({0, 2, 4, 6, 8, 10, 12, 14}), "ranks 0, 2, 4, 6, 8, 10 and 2 more");
}

TEST(LedgerBar, CellsAddUpExactly) {
  LedgerNs ledger{};
  for (size_t i = 0; i < kCategoryCount; ++i) ledger[i] = static_cast<int64_t>(i * i * 7 + 1);
  const auto slices = ledger_slices(ledger);
  for (int columns : {1, 7, 56, 96, 211}) {
    int sum = 0;
    for (int cells : cells_of(slices, columns)) sum += cells;
    EXPECT_EQ(sum, columns);
  }
  EXPECT_TRUE(cells_of(ledger_slices({}), 96).empty());
}

TEST(LedgerBar, EveryCategoryHasItsOwnGlyphAndColour) {
  std::set<std::string_view> glyphs, colours;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    glyphs.insert(look(static_cast<Category>(i)).glyph);
    colours.insert(look(static_cast<Category>(i)).web_colour);
  }
  EXPECT_EQ(glyphs.size(), kCategoryCount);
  EXPECT_EQ(colours.size(), kCategoryCount);
}

}  // namespace
}  // namespace stepscope
