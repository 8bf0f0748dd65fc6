// Whole screens as they are drawn, in tests/golden/screens/: a change shows as a diff to be read by a person.
// `tools/renew_golden.sh` writes them anew.
#include "tui/screen.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "example_snapshot.h"
#include "report/text_layout.h"

namespace stepscope::tui {
namespace {

constexpr const char* kOutput =
    "step   50  loss 5.913\n[rank1]: /srv/train.py:40: UserWarning: lr_scheduler.step() before optimizer.step()\n"
    "epoch 1:  10%|#         |\repoch 1:  20%|##        |\n\x1b[32mstep  100  loss 4.870\x1b[0m\n";

Snapshot running(Snapshot s) {
  s.run.status = "running";
  s.run.exit_code.reset();
  return s;
}

struct Looked {
  const char* name;
  Snapshot (*snapshot)();
  int columns, rows;
  const char* keys = "";  // typed one after the other
};
const Looked kLooked[] = {
    {"eight_80x24", [] { return running(examples::straggler(8)); }, 80, 24},
    {"eight_120x40", [] { return running(examples::straggler(8)); }, 120, 40},
    {"eight_200x50", [] { return running(examples::straggler(8)); }, 200, 50},
    {"eight_20x24", [] { return running(examples::straggler(8)); }, 20, 24},
    {"one_80x24", [] { return running(examples::balanced(1)); }, 80, 24},
    {"thousand_80x24", [] { return running(examples::straggler(1000)); }, 80, 24},
    {"thousand_200x50", [] { return running(examples::straggler(1000)); }, 200, 50},
    {"gpu_120x40", [] { return running(examples::gpu_job()); }, 120, 40},
    {"lost_80x24", [] { return examples::rank_lost(); }, 80, 24},
    {"no_step_80x24", [] { return running(examples::empty()); }, 80, 24},
    {"half_seen_100x30", [] { return running(examples::half_seen()); }, 100, 30},
    {"detail_80x24", [] { return running(examples::straggler(8)); }, 80, 24, "\r"},
    {"sorted_80x24", [] { return running(examples::straggler(8)); }, 80, 24, "2sssjj"},
    {"help_80x24", [] { return running(examples::straggler(8)); }, 80, 24, "?"},
    {"steps_100x40", [] { return running(examples::gpu_job()); }, 100, 40, "3"},
    {"findings_80x24", [] { return examples::rank_lost(); }, 80, 24, "4j"},
    {"memory_80x24", [] { return running(examples::gpu_job()); }, 80, 24, "5"},
    {"forecast_80x24", [] { return running(examples::creeping()); }, 80, 24, "5"},
    {"system_80x24", [] { return running(examples::straggler(8)); }, 80, 24, "6"},
    {"output_80x24", [] { return running(examples::straggler(8)); }, 80, 24, "7"},
};

MemoryTrack rising() {
  MemoryTrack track;
  for (int i = 0; i < 60; ++i) track.add("process", (380.0 + i) * 1024 * 1024);
  return track;
}

Screen after_keys(const ScreenInput& in, ViewState& state, const Size& size, std::string_view keys) {
  Screen screen = draw_screen(in, state, size);
  for (const Key& key : KeyDecoder().feed(keys)) {
    apply_key(state, key, screen.limits);
    screen = draw_screen(in, state, size);
  }
  return screen;
}

Screen drawn(const Looked& looked, Size size) {
  OutputTail output;
  output.feed(kOutput);
  const MemoryTrack memory = rising();
  const ScreenInput in{.run_name = "ddp_demo",
                       .told = std::make_shared<Told>(looked.snapshot()),
                       .output = &output,
                       .memory = &memory,
                       .live = true};
  ViewState state;
  return after_keys(in, state, size, looked.keys);
}

class ScreenTest : public testing::TestWithParam<Looked> {};

TEST_P(ScreenTest, TheScreenIsAsItWas) {
  const Looked& looked = GetParam();
  const std::string text = drawn(looked, {looked.columns, looked.rows}).grid.text();
  const std::string path = std::string(SS_SOURCE_DIR) + "/tests/golden/screens/" + looked.name + ".txt";
  if (std::getenv("STEPSCOPE_RENEW_GOLDEN")) std::ofstream(path) << text;
  std::ostringstream kept;
  kept << std::ifstream(path).rdbuf();
  EXPECT_TRUE(kept.str() == text) << path << " differs; tools/renew_golden.sh writes it anew. Now:\n" << text;
}

TEST_P(ScreenTest, AnySizeIsDrawnWithinItsBounds) {
  for (const int columns : {0, 1, 2, 5, 19, 20, 21, 39, 59, 60, 61, 69, 70, 79, 149, 150, 151, 300}) {
    for (const int rows : {0, 1, 2, 3, 5, 8, 12, 23, 35, 36, 37, 120}) {
      const Grid grid = drawn(GetParam(), {columns, rows}).grid;
      ASSERT_EQ(grid.columns(), columns);
      ASSERT_EQ(grid.rows(), rows);
      std::istringstream lines(grid.text());
      for (std::string line; std::getline(lines, line);) ASSERT_LE(display_width(line), static_cast<size_t>(columns));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Screens, ScreenTest, testing::ValuesIn(kLooked),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace stepscope::tui
