#include "report/compare.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "example_snapshot.h"
#include "report/summary_text.h"

namespace stepscope {
namespace {

// A healthy run whose steps are `factor` times as long, with a p90 that lies `spread` above the median.
Snapshot scaled(double factor, double spread = 0.02) {
  Snapshot s = examples::balanced();
  const double p50 = 30.8 * factor;
  s.wall_ms = {p50, p50 * (1 + spread), p50 * (1 + 2 * spread), p50};
  return s;
}

TEST(Compare, TellsSlowerFasterAndSame) {
  EXPECT_EQ(compare(scaled(1), scaled(1.06)).outcome, Outcome::kRegression);
  EXPECT_EQ(compare(scaled(1), scaled(0.92)).outcome, Outcome::kImprovement);
  EXPECT_EQ(compare(scaled(1), scaled(1.01)).outcome, Outcome::kSame);
  EXPECT_EQ(compare(scaled(1), scaled(1)).outcome, Outcome::kSame);
}

TEST(Compare, ChangesWithinNoiseAreInconclusiveOnBothSidesOfTheBound) {
  // noise = 3 * 1.2533 * sqrt(2 * (0.3 / 1.2816)^2 / (237 / 4)) = 16.2 %
  EXPECT_EQ(compare(scaled(1, 0.3), scaled(1.10, 0.27)).outcome, Outcome::kInconclusive);
  EXPECT_EQ(compare(scaled(1, 0.3), scaled(1.01, 0.3)).outcome, Outcome::kInconclusive);  // cannot be told from +10 %
  EXPECT_EQ(compare(scaled(1, 0.3), scaled(1.25, 0.24)).outcome, Outcome::kRegression);
}

TEST(Compare, TheLeastChangeIsTheUsers) {
  EXPECT_EQ(compare(scaled(1), scaled(1.06), {.least_change = 0.10}).outcome, Outcome::kSame);
  EXPECT_EQ(compare(scaled(1, 0.001), scaled(1.02, 0.001), {.least_change = 0.01}).outcome, Outcome::kRegression);
}

TEST(Compare, TooFewStepsOrUnlikeJobsGiveNoVerdict) {
  Snapshot few = scaled(2);
  few.steps_analyzed = kMinComparedSteps - 1;
  EXPECT_EQ(compare(scaled(1), few).outcome, Outcome::kInconclusive);
  few.steps_analyzed = kMinComparedSteps;
  EXPECT_EQ(compare(scaled(1), few).outcome, Outcome::kRegression);
  Snapshot wide = scaled(2);
  wide.run.world_size = 4;
  EXPECT_EQ(compare(scaled(1), wide).outcome, Outcome::kInconclusive);
  EXPECT_EQ(compare(scaled(1), examples::empty()).outcome, Outcome::kInconclusive);
}

TEST(Compare, ALostRankIsARegressionWhateverTheStepsTook) {
  Snapshot lost = examples::rank_lost();
  Snapshot fine = examples::straggler(4);
  EXPECT_EQ(compare(fine, lost).outcome, Outcome::kRegression);
  EXPECT_NE(compare(lost, lost).outcome, Outcome::kRegression);
  EXPECT_NE(compare(lost, fine).outcome, Outcome::kRegression);
}

TEST(Compare, NamesFindingsThatOpenedAndClosed) {
  const Comparison c = compare(examples::balanced(), examples::straggler());
  ASSERT_EQ(c.opened.size(), 1u);
  EXPECT_EQ(c.opened[0], "COMPUTE STRAGGLER: Rank 1 is late in backward; rank 0 waits 48.8 ms per step");
  EXPECT_TRUE(c.closed.empty());
  EXPECT_EQ(compare(examples::straggler(), examples::balanced()).closed.size(), 1u);
}

TEST(Compare, ExitCodesAreThoseOfTheGuard) {
  EXPECT_EQ(exit_code(Outcome::kSame), 0);
  EXPECT_EQ(exit_code(Outcome::kImprovement), 0);
  EXPECT_EQ(exit_code(Outcome::kInconclusive), 3);
  EXPECT_EQ(exit_code(Outcome::kRegression), 4);
}

TEST(Compare, TextAndJsonSayTheSame) {
  const Comparison c = compare(examples::balanced(), examples::straggler());
  const std::string text = compare_text(c, {});
  EXPECT_NE(text.find("REGRESSION"), std::string::npos);
  EXPECT_NE(text.find("Slower: median step 30.8 ms → 79.4 ms (+157.8 %"), std::string::npos);
  const auto j = nlohmann::json::parse(compare_json(c));
  EXPECT_EQ(j["outcome"], "regression");
  EXPECT_EQ(j["exit_code"], 4);
  EXPECT_EQ(j["figures"][0]["name"], "step_p50_ms");
  EXPECT_NEAR(j["figures"][0]["change"].get<double>(), 1.578, 0.001);
  EXPECT_TRUE(j["figures"][1]["noise"].is_null());
}

TEST(Compare, MoreThroughputIsBetter) {
  Snapshot slow = scaled(1), fast = scaled(1);
  fast.throughput["samples_per_s"] = *slow.throughput["samples_per_s"] * 1.5;
  for (const ComparedFigure& f : compare(slow, fast).figures) {
    if (f.name == "samples_per_s") {
      EXPECT_EQ(f.outcome, Outcome::kImprovement);
    }
  }
}

}  // namespace
}  // namespace stepscope
