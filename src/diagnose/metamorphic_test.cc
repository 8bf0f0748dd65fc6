// What must not turn a verdict (docs/decisions/0014): other numbers for the ranks, a slower clock, one more healthy
// rank, a run twice as long. Every scenario that is about steps alone is played again in each of these ways; who is
// primary, with its ranks and phase, follows.
#include <gtest/gtest.h>

#include "scenario_play.h"

namespace stepscope::scenario {
namespace {

// Losses, memory, configuration and partial views have figures of their own that would have to change along.
bool about_steps(const Scenario& s) {
  return s.memory.empty() && s.ooms.empty() && s.losses.empty() && s.tenants.empty() && s.configs.empty() &&
         s.late_ms.empty() && s.prepares.empty() && s.joins.empty() && s.seen.empty() && s.lossy.empty() &&
         s.world == 0 && s.tensor_parallel == 1 && s.options.silence.empty();
}

struct Verdict {
  std::string kind, phase;
  std::vector<int> ranks;
  bool operator==(const Verdict&) const = default;
  bool graded = false;
};

std::ostream& operator<<(std::ostream& out, const Verdict& v) {
  out << v.kind << " " << v.phase << " ranks";
  for (int r : v.ranks) out << " " << r;
  return out;
}

Verdict verdict_of(const Scenario& s) {
  const Snapshot snapshot = Play(s).run();
  if (snapshot.primary < 0) return {};
  const Finding& f = snapshot.findings[static_cast<size_t>(snapshot.primary)];
  return {f.kind.str(), f.phase, f.ranks, f.severity != Severity::kInfo};
}

int renamed(const Scenario& s, int rank) { return rank < 0 ? rank : s.ranks - 1 - rank; }

void rename(const Scenario& s, Words& w) {
  if (w.contains("rank") && w.at("rank") != "all") w["rank"] = std::to_string(renamed(s, std::stoi(w.at("rank"))));
}

Scenario with_ranks_renamed(Scenario s) {
  for (Fault& f : s.faults) f.rank = renamed(s, f.rank);
  for (Words& w : s.changes) rename(s, w);
  rename(s, s.scaler);
  rename(s, s.unstepped);
  return s;
}

Scenario slower(Scenario s) {
  constexpr double kFactor = 1.5;
  for (auto& [phase, ms] : s.phases) ms *= kFactor;
  for (Fault& f : s.faults) f.add_ms *= kFactor;
  s.comm_ms *= kFactor;
  return s;
}

Scenario with_one_more_rank(Scenario s) {
  // A scheduler that a wrapper advances once per process.
  if (!s.schedule.empty() && number(s.schedule, "", 1) == s.ranks) s.schedule[""] = std::to_string(s.ranks + 1);
  ++s.ranks;
  return s;
}

Scenario twice_as_long(Scenario s) {
  s.steps *= 2;
  return s;
}

// Too few steps for a verdict are a verdict that more of them change.
bool lasts(const Scenario& s) {
  constexpr int kEnough = 32;
  return s.steps >= kEnough &&
         std::all_of(s.faults.begin(), s.faults.end(), [&](const Fault& f) { return f.from == 0 && f.to >= s.steps; });
}

class MetamorphicTest : public testing::TestWithParam<std::string> {
 protected:
  Scenario scenario() const { return read(path_of(GetParam())); }
};

TEST_P(MetamorphicTest, TheVerdictFollows) {
  const Scenario s = scenario();
  Verdict was = verdict_of(s);
  EXPECT_EQ(verdict_of(slower(s)), was) << "on a slower clock";
  if (lasts(s)) {
    EXPECT_EQ(verdict_of(twice_as_long(s)), was) << "in a longer run";
  }
  if (s.ranks > 2) {
    EXPECT_EQ(verdict_of(with_one_more_rank(s)), was) << "with one more rank";
  }
  for (int& rank : was.ranks) rank = renamed(s, rank);
  std::sort(was.ranks.begin(), was.ranks.end());
  EXPECT_EQ(verdict_of(with_ranks_renamed(s)), was) << "with other numbers";
}

std::vector<std::string> files_about_steps() {
  std::vector<std::string> out = files();
  std::erase_if(out, [](const std::string& file) { return !about_steps(read(path_of(file))); });
  return out;
}

INSTANTIATE_TEST_SUITE_P(Files, MetamorphicTest, testing::ValuesIn(files_about_steps()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace stepscope::scenario
