// How often `compare` is right, on simulated runs. Steps of a run: lognormal noise of 5 % about its median, of which a
// part is carried from step to step (first-order autoregression, 0.5), and every fiftieth step takes twice as long.
// Runs of one program differ by a normal deviation of their own, the run-to-run noise. Seeded: the same figures every
// time.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "analyze/robust.h"
#include "example_snapshot.h"
#include "report/compare.h"

namespace stepscope {
namespace {

constexpr double kStepNoise = 0.05, kCarried = 0.5;
constexpr uint32_t kSimulatedSteps = 500;
constexpr int kComparisons = 500;

class Machine {
 public:
  Machine(unsigned seed, double run_noise) : random_(seed), run_noise_(run_noise) {}

  std::vector<Snapshot> runs(size_t count, double factor) {
    std::vector<Snapshot> out;
    while (out.size() < count) out.push_back(run(factor));
    return out;
  }

 private:
  Snapshot run(double factor) {
    const double middle_ms = 100 * factor * (1 + run_noise_ * normal_(random_));
    Snapshot s;
    s.run = {.name = "simulated", .world_size = 4, .nodes = 1, .status = "completed"};
    s.observer.coverage = 1;
    std::vector<double> walls_ms;
    double carried = 0;
    for (uint32_t step = 0; step < kSimulatedSteps; ++step) {
      carried = kCarried * carried + std::sqrt(1 - kCarried * kCarried) * normal_(random_);
      const double wall_ms = middle_ms * std::exp(kStepNoise * carried) * (step % 50 == 49 ? 2 : 1);
      walls_ms.push_back(wall_ms);
      s.recent.push_back({.step = step, .wall_ms = wall_ms});
    }
    s.steps = s.steps_analyzed = walls_ms.size();
    s.wall_ms = {quantile(walls_ms, 0.5), quantile(walls_ms, 0.9), quantile(walls_ms, 0.99), mean(walls_ms)};
    return s;
  }

  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  double run_noise_;
};

struct Tally {
  int slower = 0, same = 0, faster = 0, open = 0;
  int slower_of_first_100 = 0;
};

Tally judge(double run_noise, size_t runs_a_side, double slower_by) {
  Machine machine(20'260'101, run_noise);
  Tally out;
  for (int i = 0; i < kComparisons; ++i) {
    const auto a = machine.runs(runs_a_side, 1), b = machine.runs(runs_a_side, 1 + slower_by);
    switch (compare(a, b).outcome) {
      case Outcome::kRegression:
        ++out.slower;
        out.slower_of_first_100 += i < 100;
        break;
      case Outcome::kImprovement: ++out.faster; break;
      case Outcome::kSame: ++out.same; break;
      case Outcome::kInconclusive: ++out.open; break;
    }
  }
  std::printf(
      "run-to-run noise %.1f %%, %zu a side, B slower by %2.0f %%: worse %5.1f %%, same %5.1f %%, better %5.1f %%, "
      "inconclusive %5.1f %%; worse in %d of the first 100\n",
      run_noise * 100, runs_a_side, slower_by * 100, out.slower * 100.0 / kComparisons, out.same * 100.0 / kComparisons,
      out.faster * 100.0 / kComparisons, out.open * 100.0 / kComparisons, out.slower_of_first_100);
  return out;
}

TEST(CompareSimulation, EqualSidesAreNotCalledWorse) {
  for (const double run_noise : {0.005, 0.01, 0.02, 0.04}) {
    for (const size_t runs : {size_t{1}, size_t{2}, size_t{3}}) {
      const Tally t = judge(run_noise, runs, 0);
      if (runs == 1 && run_noise > kAssumedRunNoise) continue;  // what one pair cannot know
      if (run_noise <= 0.01) {
        EXPECT_LE(t.slower_of_first_100, 2);
      }
      EXPECT_LE(t.slower, kComparisons * 4 / 100);  // 2 in 100 are meant; 4 are three deviations more
      EXPECT_LE(t.faster, kComparisons * 4 / 100);
    }
  }
}

TEST(CompareSimulation, FivePercentIsFoundWithThreeRunsASide) {
  for (const double run_noise : {0.005, 0.01}) {
    const Tally t = judge(run_noise, 3, 0.05);
    EXPECT_GE(t.slower_of_first_100, 95);
    EXPECT_GE(t.slower, kComparisons * 95 / 100);
  }
  for (const double run_noise : {0.02, 0.04}) {
    judge(run_noise, 3, 0.05);
    EXPECT_GE(judge(run_noise, 3, 0.30).slower, kComparisons * 95 / 100);
  }
  for (const double run_noise : {0.005, 0.01}) judge(run_noise, 1, 0.05);
  EXPECT_GE(judge(0.01, 1, 0.10).slower, kComparisons * 95 / 100);
}

}  // namespace
}  // namespace stepscope
