#include "report/section_lines.h"

#include <gtest/gtest.h>

#include <cmath>

namespace stepscope {
namespace {

constexpr double kMib = 1024.0 * 1024, kGib = kMib * 1024;

TEST(SectionLines, AHostInFourLines) {
  const LabelledLines lines = section_lines({{"cpu_share", 0.905},
                                             {"cpu_peak_share", 1.0},
                                             {"cores", 2},
                                             {"load1", 1.95},
                                             {"memory_total_bytes", 24 * kGib},
                                             {"memory_available_min_bytes", 22 * kGib},
                                             {"memory_used_peak_share", 2.0 / 24},
                                             {"swap_used_peak_bytes", 0},
                                             {"cpu_pressure_share", 0.169},
                                             {"memory_pressure_share", 0},
                                             {"io_pressure_share", 0.001},
                                             {"gpus", 0}});
  EXPECT_EQ(lines,
            (LabelledLines{{"CPU", "90 % of 2 cores busy, at most 100 %, load 1.95"},
                           {"Memory", "2.00 GiB of 24.0 GiB in use at most (8.3 %), no swap"},
                           {"Tasks wait", "17 % for a core, 0 % for memory, 0.1 % for the disk (share of the time)"}}));
}

TEST(SectionLines, AProcessInFiveLines) {
  const LabelledLines lines = section_lines({{"cpu_cores", 0.92},
                                             {"run_delay_share", 0.079},
                                             {"run_delay_worst_share", 0.087},
                                             {"rss_peak_bytes", 852 * kMib},
                                             {"uss_peak_bytes", 410 * kMib},
                                             {"read_bytes_per_s", 2.0 * kMib},
                                             {"threads_max", 4},
                                             {"workers_max", 0}});
  EXPECT_EQ(lines, (LabelledLines{{"CPU", "0.92 cores per rank, waits 7.9 % of the time for a core (worst rank 8.7 %)"},
                                  {"Memory", "852 MiB resident (RSS), 410 MiB private (USS): at most, of any rank"},
                                  {"Reads", "2.00 MiB/s per rank"},
                                  {"Threads", "at most 4 per rank"},
                                  {"Workers", "none"}}));
}

TEST(SectionLines, WhatNoLineKnowsIsShownByItsName) {
  EXPECT_EQ(section_lines({{"fan_speed_share", 0.5}, {"riddles", std::nan("")}, {"nothing", std::nullopt}}),
            (LabelledLines{{"Also", "fan speed 50.0 %"}}));
}

TEST(SectionLines, OfNothingMeasuredNothingIsSaid) { EXPECT_TRUE(section_lines({}).empty()); }

}  // namespace
}  // namespace stepscope
