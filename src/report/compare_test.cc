#include "report/compare.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

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

Comparison several(const std::vector<double>& a, const std::vector<double>& b, const CompareOptions& options = {}) {
  const auto side = [](const std::vector<double>& factors) {
    std::vector<Snapshot> runs;
    for (const double factor : factors) runs.push_back(scaled(factor));
    return runs;
  };
  return compare(side(a), side(b), options);
}

TEST(Compare, TellsSlowerFasterAndSame) {
  EXPECT_EQ(compare(scaled(1), scaled(1.06)).outcome, Outcome::kRegression);
  EXPECT_EQ(compare(scaled(1), scaled(0.92)).outcome, Outcome::kImprovement);
  EXPECT_EQ(compare(scaled(1), scaled(1.01)).outcome, Outcome::kSame);
  EXPECT_EQ(compare(scaled(1), scaled(1)).outcome, Outcome::kSame);
}

TEST(Compare, ChangesWithinNoiseAreInconclusiveOnBothSidesOfTheBound) {
  // noise = 3 * sqrt(2 * 1.2533^2 * (0.3 / 1.2816)^2 / (237 / 4) + 2 * 0.01^2) = 16.7 %
  EXPECT_EQ(compare(scaled(1, 0.3), scaled(1.10, 0.27)).outcome, Outcome::kInconclusive);
  EXPECT_EQ(compare(scaled(1, 0.3), scaled(1.01, 0.3)).outcome, Outcome::kInconclusive);  // cannot be told from +10 %
  EXPECT_EQ(compare(scaled(1, 0.3), scaled(1.25, 0.24)).outcome, Outcome::kRegression);
}

TEST(Compare, TheLeastChangeIsTheUsers) {
  EXPECT_EQ(compare(scaled(1), scaled(1.06), {.least_change = 0.10}).outcome, Outcome::kSame);
  EXPECT_EQ(several({1, 1.001, 0.999}, {1.02, 1.021, 1.019}, {.least_change = 0.01}).outcome, Outcome::kRegression);
  EXPECT_EQ(several({1, 1.001, 0.999}, {1.02, 1.021, 1.019}).outcome, Outcome::kSame);
}

TEST(Compare, OnePairDoesNotTellWhatTwoRunsMayDifferBy) {
  EXPECT_EQ(compare(scaled(1, 0.001), scaled(1.035, 0.001)).outcome, Outcome::kInconclusive);
  EXPECT_EQ(compare(scaled(1, 0.001), scaled(1.05, 0.001)).outcome, Outcome::kRegression);
  EXPECT_NE(compare(scaled(1), scaled(1.035)).reason.find("--baseline"), std::string::npos);
}

TEST(Compare, StepsThatResembleTheirNeighboursTellLess) {
  const auto with_waves = [](double factor, double period) {
    Snapshot s = scaled(factor);
    for (StepPoint& p : s.recent) p.wall_ms *= 1 + 0.1 * std::sin(2 * M_PI * static_cast<double>(p.step) / period);
    return s;
  };
  EXPECT_EQ(compare(with_waves(1, 3), with_waves(1.08, 3)).outcome, Outcome::kRegression);
  EXPECT_EQ(compare(with_waves(1, 150), with_waves(1.08, 150)).outcome, Outcome::kInconclusive);
}

TEST(Compare, OnAHostWithOtherProgramsOnePairTellsLittle) {
  const auto crowded = [](double factor, double delay, double own_cores) {
    Snapshot s = scaled(factor);
    s.process["run_delay_worst_share"] = delay;
    s.process["cpu_cores"] = own_cores;
    s.system["cpu_share"] = 0.98;
    s.system["cores"] = 2;
    return s;
  };
  EXPECT_EQ(compare(crowded(1, 0.3, 0.2), crowded(1.4, 0.3, 0.2)).outcome, Outcome::kInconclusive);
  EXPECT_EQ(compare(crowded(1, 0.3, 0.2), crowded(1.4, 0.3, 0.2)).warnings.size(), 2u);
  EXPECT_EQ(compare(crowded(1, 0.3, 0.98), crowded(1.4, 0.3, 0.98)).outcome,
            Outcome::kRegression);  // two ranks, all theirs
  EXPECT_EQ(compare(crowded(1, 0.002, 0.2), crowded(1.4, 0.002, 0.2)).outcome, Outcome::kRegression);
  Snapshot device_a = crowded(1, 0.3, 0.2), device_b = crowded(1.4, 0.3, 0.2);
  device_a.job_clock = device_b.job_clock = "gpu";
  EXPECT_EQ(compare(device_a, device_b).outcome, Outcome::kRegression);
}

TEST(Compare, SeveralRunsShowWhatRunsDifferBy) {
  const Comparison steady = several({1, 1.01, 0.99}, {1.05, 1.06, 1.04});
  EXPECT_EQ(steady.outcome, Outcome::kRegression);
  ASSERT_TRUE(steady.run_noise);
  EXPECT_NEAR(*steady.run_noise, 0.01, 1e-9);
  EXPECT_NEAR(*steady.figures[0].noise, 2.999 * 0.01 * std::sqrt(2.0 / 3), 1e-9);  // four degrees of freedom
  EXPECT_EQ(several({1, 1.06, 0.94}, {1.05, 1.11, 0.99}).outcome, Outcome::kInconclusive);
  EXPECT_EQ(several({1, 1.01}, {1.05}).outcome, Outcome::kInconclusive);  // one degree: luck is not excluded
  EXPECT_EQ(several({1.05, 1.06, 1.04}, {1, 1.01, 0.99}).outcome, Outcome::kImprovement);
  for (const ComparedFigure& f : steady.figures) {
    if (f.name == "backward_ms") {
      EXPECT_EQ(f.outcome, Outcome::kSame);  // phases are judged, too
    }
  }
}

TEST(Compare, AShortRunOfASideIsLeftOut) {
  std::vector<Snapshot> a = {scaled(1), scaled(9)}, b = {scaled(1.2)};
  a[1].steps_analyzed = kMinComparedSteps - 1;
  const Comparison c = compare(a, b);
  EXPECT_EQ(c.outcome, Outcome::kRegression);
  EXPECT_NEAR(*c.figures[0].a, 30.8, 1e-9);
  ASSERT_EQ(c.warnings.size(), 1u);
  EXPECT_NE(c.warnings[0].find("left out"), std::string::npos);
}

TEST(Compare, ALostRankInOneRunOfASideIsARegression) {
  const std::vector<Snapshot> fine(3, examples::straggler(4));
  std::vector<Snapshot> once = fine;
  once[2] = examples::rank_lost();
  EXPECT_EQ(compare(fine, once).outcome, Outcome::kRegression);
  EXPECT_NE(compare(fine, once).reason.find("no run of A"), std::string::npos);
  EXPECT_NE(compare(once, fine).outcome, Outcome::kRegression);
}

TEST(Compare, AFindingIsNewWhereMostRunsHaveItAndMostOfTheOthersHaveNot) {
  const std::vector<Snapshot> none(3, examples::balanced());
  std::vector<Snapshot> some = none;
  some[1] = examples::straggler();
  EXPECT_TRUE(compare(none, some).opened.empty());
  some[2] = examples::straggler();
  const Comparison c = compare(none, some);
  ASSERT_EQ(c.opened.size(), 1u);
  EXPECT_TRUE(c.opened[0].ends_with("(2 of 3 runs)")) << c.opened[0];
  EXPECT_EQ(compare(some, none).closed.size(), 1u);
}

TEST(Compare, SaysWhatElseIsNotTheSame) {
  Snapshot other = scaled(1);
  other.run.versions["torch"] = "2.9.0";
  other.run.command.push_back("--batch-size=64");
  const Comparison c = compare(scaled(1), other);
  ASSERT_EQ(c.warnings.size(), 2u);
  EXPECT_EQ(c.warnings[0], "torch differs: 2.15.0 and 2.9.0");
  EXPECT_NE(c.warnings[1].find("--batch-size=64"), std::string::npos);
}

TEST(Compare, StallsAndSkewStandBesideTheStep) {
  const auto value = [](const Comparison& c, std::string_view name) -> std::optional<double> {
    for (const ComparedFigure& f : c.figures)
      if (f.name == name) return f.b;
    return std::nullopt;
  };
  const Comparison c = compare(examples::balanced(4), examples::straggler(4));
  EXPECT_NEAR(value(c, "straggler_wait_ms").value(), 48.8 * 3 / 4, 0.01);  // mean over ranks
  EXPECT_NEAR(value(c, "own_time_skew_pct").value(), 177.5, 0.1);
}

TEST(Compare, MarkdownIsATableWithoutMarkUpOfNames) {
  std::vector<Snapshot> a(2, scaled(1)), b(2, scaled(1.2));
  a[0].run.name = "a_|b";
  const std::string text = compare_markdown(compare(a, b));
  EXPECT_EQ(text.find("### REGRESSION\n\n**Slower: median step 30.8 ms → 37.0 ms"), 0u) << text;
  EXPECT_NE(text.find("A: a\\_\\|b, healthy"), std::string::npos) << text;
  EXPECT_NE(text.find("\n|---|---:|---:|---:|---:|---|\n"), std::string::npos) << text;
  EXPECT_NE(text.find("| regression |\n"), std::string::npos) << text;
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
