#include "cli/run_history.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/kept_output.h"
#include "cli/progress_lines.h"
#include "example_snapshot.h"
#include "scratch_folder.h"

namespace stepscope {
namespace {

std::vector<KnownRun> runs() {
  std::vector<KnownRun> out;
  for (int i = 0; i < 5; ++i)
    out.push_back({.name = std::string(1, static_cast<char>('a' + i)), .started_s = 1'000'000 - i * 86400});
  out[3].live = true;
  return out;
}

std::string pruned(const PruneRules& rules) {
  const std::vector<KnownRun> all = runs();
  std::string names;
  for (const KnownRun* run : to_prune(all, rules, 1'000'000)) names += run->name;
  return names;
}

TEST(RunHistory, BothRulesMustAgreeAndLiveRunsStay) {
  EXPECT_EQ(pruned({}), "");
  EXPECT_EQ(pruned({.keep = 0}), "abce");
  EXPECT_EQ(pruned({.keep = 2}), "ce");
  EXPECT_EQ(pruned({.older_days = 0.5}), "bce");
  EXPECT_EQ(pruned({.keep = 1, .older_days = 1.5}), "ce");
  EXPECT_EQ(pruned({.keep = 99}), "");
}

std::string written(KeptOutput& kept, std::string& rest) {
  testing::ScratchFolder folder;
  const std::string path = folder.file("shown");
  const int fd = ::open(path.c_str(), O_CREAT | O_WRONLY, 0600);
  rest = kept.show(fd);
  ::close(fd);
  return *read_file(path, 64u << 20);
}

TEST(KeptOutputTest, WhatWasWrittenComesOutAgainByteByByte) {
  testing::ScratchFolder folder;
  KeptOutput kept(folder.file("output.log"));
  const std::string bytes("a\0\xff\r\n\x1b[1m", 9);
  kept.add(bytes);
  kept.add("end");
  std::string rest;
  EXPECT_EQ(written(kept, rest), bytes + "end");
  EXPECT_EQ(rest, "");
  EXPECT_EQ(*read_file(folder.file("output.log")), bytes + "end");
}

TEST(KeptOutputTest, OfALotTheNewestIsShownFromTheBeginningOfALine) {
  testing::ScratchFolder folder;
  KeptOutput kept(folder.file("output.log"));
  std::string all;
  for (int i = 0; all.size() < 5 * KeptOutput::kMaxBytes; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    kept.add(line);
    all += line;
  }
  std::string rest;
  const std::string shown = written(kept, rest);
  EXPECT_LE(shown.size(), KeptOutput::kMaxBytes);
  EXPECT_GT(shown.size(), KeptOutput::kMaxBytes - 100);
  EXPECT_TRUE(all.ends_with(shown) && shown.starts_with("line "));
  EXPECT_NE(rest.find("all of it is in " + folder.file("output.log")), std::string::npos);
  EXPECT_EQ(*read_file(folder.file("output.log"), 64u << 20), all);
}

TEST(KeptOutputTest, WithoutAFileTheLossIsSaid) {
  KeptOutput kept("/proc/nowhere/output.log");
  kept.add(std::string(3 * KeptOutput::kMaxBytes, 'x'));
  std::string rest;
  EXPECT_EQ(written(kept, rest).size(), KeptOutput::kMaxBytes);
  EXPECT_NE(rest.find("the rest could not be kept"), std::string::npos);
}

TEST(Progress, LinesComeEverMoreRarely) {
  double before = 0, step = 0;
  for (size_t i = 0; i < 20; ++i) {
    const double due = progress_due_s(i);
    EXPECT_GE(due - before, step);
    step = due - before;
    before = due;
  }
  EXPECT_EQ(progress_due_s(0), 10);
  EXPECT_EQ(step, 600);
}

TEST(Progress, ALineSaysHowFarHowFastAndWhatIsWrong) {
  EXPECT_EQ(
      progress_line(tui::Told(examples::straggler(4))),
      "22.4 s · 240 steps · p50 79.4 ms · 1,608 samples/s · COMPUTE STRAGGLER (crit): Rank 1 is late in backward; "
      "3 ranks wait 48.8 ms per step · costs 61 % of wall time, 11.7 s");
  EXPECT_EQ(progress_line(tui::Told(examples::balanced(2))),
            "22.4 s · 240 steps · p50 30.8 ms · 804 samples/s · BALANCED");
}

TEST(Progress, AVerdictChangesWithKindRankAndSeverityAlone) {
  Snapshot s = examples::straggler(4);
  const std::string before = verdict_key(s);
  s.findings[0].cost_share = 0.3;
  s.findings[0].title = "other words";
  EXPECT_EQ(verdict_key(s), before);
  s.findings[0].ranks = {2};
  EXPECT_NE(verdict_key(s), before);
  EXPECT_EQ(verdict_key(examples::balanced(2)), "");
}

}  // namespace
}  // namespace stepscope
