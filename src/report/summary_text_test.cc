#include "report/summary_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <regex>
#include <sstream>

#include "example_snapshot.h"
#include "random_snapshot.h"
#include "report/text_layout.h"

namespace stepscope {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string without_colour(const std::string& text) {
  return std::regex_replace(text, std::regex("\x1b\\[[0-9;]*m"), "");
}

size_t widest(const std::string& text) {
  size_t width = 0;
  for (const std::string& line : lines_of(text)) width = std::max(width, display_width(line));
  return width;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string saves_line(Saving saves) {
  Snapshot s = examples::straggler();
  s.findings[0].saves = std::move(saves);
  std::string text = std::regex_replace(summary_text(s), std::regex("\n *"), " ");
  return text.substr(text.find("Saves"), text.find("Next") - text.find("Saves"));
}

TEST(SummaryText, ASavingIsARangeANarrowOneANumber) {
  const std::string wide = saves_line({.share = 0.37, .low = 0.3, .high = 0.372, .caveat = "nobody knows"});
  EXPECT_TRUE(has(wide, "30 to 37 % of wall time when fixed: the mean step goes from")) << wide;
  EXPECT_TRUE(has(wide, "The range is wide: nobody knows")) << wide;
  const std::string narrow = saves_line({.share = 0.37, .low = 0.36, .high = 0.375, .caveat = "nobody knows"});
  EXPECT_TRUE(has(narrow, "37 % of wall time when fixed")) << narrow;
  EXPECT_FALSE(has(narrow, " to 38") || has(narrow, "nobody")) << narrow;
  EXPECT_TRUE(has(saves_line({.share = 0.37}), "37 % of wall time when fixed"));
}

// A column goes as a whole where one of its cells finds no room: a long remark must not take the short ones along.
TEST(SummaryText, ALongRemarkOfAFactTakesNoOtherAway) {
  Snapshot s = examples::straggler();
  s.findings[0].evidence.push_back(
      {"line_share", 1, 0.9, {}, "train.py:56 Slow.backward: asleep or waiting, where rank 0 never is"});
  const std::string text = without_colour(summary_text(s));
  EXPECT_TRUE(has(text, "train.py:56 Slow.backward: asleep or waiting, where rank 0 never is")) << text;
  EXPECT_TRUE(has(text, "  others ")) << text;
}

TEST(SummaryText, TheVerdictComesFirst) {
  const auto lines = lines_of(summary_text(examples::straggler()));
  EXPECT_EQ(lines[4], "  COMPUTE STRAGGLER  crit");
  EXPECT_EQ(lines[5], "  Rank 1 is late in backward; rank 0 waits 48.8 ms per step");
}

TEST(SummaryText, ThenWhatItCostsWhatToDoAndWhy) {
  const std::string text = summary_text(examples::straggler());
  const std::vector<std::string> order = {"COMPUTE STRAGGLER  crit",
                                          "  Costs   61 % of wall time, 11.7 s",
                                          "the mean step goes from 79.6 ms to between 29.8 ms and",
                                          "  Next    Look at what rank 1 does",
                                          "  Why     backward own  rank 1  63.0 ms  others 14.2 ms",
                                          "in nearly every step · steps 0 to 239, detected at step 19",
                                          "Where the time went",
                                          "Also found",
                                          "Step time",
                                          "Ranks",
                                          "Sections",
                                          "Observer"};
  size_t at = 0;
  for (const std::string& part : order) {
    const size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << part << "\n" << text;
    at = found;
  }
}

TEST(SummaryText, TheTableIsTheOnePeopleKnow) {
  const std::string text = summary_text(examples::straggler(4));
  EXPECT_TRUE(std::regex_search(text, std::regex("Median +Worst +Worst Rank +Skew % +Share")));
  EXPECT_TRUE(std::regex_search(text, std::regex("backward +14\\.2 +63\\.0 +1 +\\+344 % +17\\.9 %")));
}

TEST(SummaryText, CulpritsAreMarkedInTheRankTable) {
  const std::string text = summary_text(examples::straggler(4));
  EXPECT_TRUE(std::regex_search(text, std::regex("\n▸ +1 +240 +79\\.4 +76\\.3 ")));
  EXPECT_FALSE(std::regex_search(text, std::regex("\n▸ +0 ")));
}

TEST(SummaryText, BeyondSixteenRanksTheWorstAreShown) {
  Snapshot s = examples::straggler(64);
  s.ranks[50].caused_wait_ms = 7;
  s.ranks[63].state = RankState::kLost;
  s.ranks[63].last_phase = "forward";
  const std::string text = summary_text(s);
  EXPECT_TRUE(has(text, "16 of 64 ranks"));
  EXPECT_TRUE(std::regex_search(text, std::regex("\n +50 +79")));
  EXPECT_TRUE(has(text, "lost in forward"));
  EXPECT_TRUE(std::regex_search(text, std::regex("\n▸ +1 ")));
  EXPECT_FALSE(std::regex_search(text, std::regex("\n +40 +79")));
}

TEST(SummaryText, SaysHowTheRunEndedAndWhatWasLost) {
  const std::string text = summary_text(examples::rank_lost());
  EXPECT_TRUE(has(text, "crashed by SIGKILL (exit code 137)"));
  EXPECT_TRUE(has(text, "RANK LOST  crit"));
  EXPECT_TRUE(has(text, "812 lost · 1 torn · coverage 87 %"));
  EXPECT_TRUE(has(text, "lost in backward"));
  EXPECT_TRUE(has(text, "crit  COMPUTE STRAGGLER"));
}

TEST(SummaryText, AnEmptyRunSaysSo) {
  const std::string text = summary_text(examples::empty());
  EXPECT_TRUE(has(text, "NO DATA"));
  EXPECT_TRUE(has(text, "No training step was seen."));
  EXPECT_FALSE(has(text, "Where the time went"));
}

TEST(SummaryText, FilesAreNamedWhenKnown) {
  EXPECT_FALSE(has(summary_text(examples::straggler()), "  Files"));
  const std::string text =
      summary_text(examples::straggler(), {.folder = "logs/demo", .files = {"final_summary.json"}});
  EXPECT_TRUE(has(text, "  Files   logs/demo"));
}

TEST(SummaryText, ANodeWhoseVerdictIsElsewhereSaysWhere) {
  const std::string text = node_text(examples::straggler(), "node0: /logs/run", {.folder = "/logs/run-2"});
  EXPECT_TRUE(has(text, "completed")) << text;
  EXPECT_TRUE(has(text, "Verdict of the whole job: node0: /logs/run")) << text;
  EXPECT_TRUE(has(text, "stepscope report /logs/run-2")) << text;
  EXPECT_FALSE(has(text, "STRAGGLER")) << text;
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 5) << text;
}

TEST(SummaryText, ColourOnlyWhenAskedAndItChangesNoText) {
  const std::string plain = summary_text(examples::gpu_job());
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  const std::string coloured = summary_text(examples::gpu_job(), {.color = true});
  EXPECT_NE(coloured.find('\x1b'), std::string::npos);
  EXPECT_EQ(without_colour(coloured), plain);
}

TEST(SummaryText, ExamplesFitInto100AndInto80Columns) {
  for (const Snapshot& s :
       {examples::straggler(), examples::balanced(), examples::rank_lost(), examples::gpu_job(), examples::empty()}) {
    EXPECT_LE(widest(summary_text(s)), 100u);
    EXPECT_LE(widest(summary_text(s, {.columns = 80})), 80u);
  }
}

RC_GTEST_PROP(SummaryText, NeverWiderThanAsked, (uint64_t seed)) {
  const Snapshot s = examples::RandomSnapshot(seed).make();
  const int columns = *rc::gen::inRange(60, 140);
  const std::string text = summary_text(s, {.columns = columns, .folder = "f", .files = {"x"}});
  for (const std::string& line : lines_of(text)) {
    if (display_width(line) > static_cast<size_t>(columns)) RC_FAIL(line);
    RC_ASSERT(printable(line) == line);
    RC_ASSERT(line.empty() || line.back() != ' ');
  }
}

}  // namespace
}  // namespace stepscope
