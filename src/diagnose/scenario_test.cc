// Runs every file of tests/scenarios through the whole reader side: events, steps, attribution, rules.
#include <gtest/gtest.h>

#include "scenario_play.h"

namespace stepscope::scenario {
namespace {

bool in_range(const std::string& range, double value) {
  const size_t at = range.find("..");
  if (at == std::string::npos) return std::abs(value - std::stod(range)) < 1e-9;
  return value >= std::stod(range.substr(0, at)) && value <= std::stod(range.substr(at + 2));
}

std::string show(const Finding& f) {
  std::ostringstream out;
  out << f.kind << " " << name(f.severity) << " ranks=";
  for (int r : f.ranks) out << r << ",";
  out << " phase=" << f.phase << " cause=" << f.cause << " first=" << f.first_step << " detected=" << f.detected_step
      << " cost=" << f.cost_share << " saves=" << (f.saves ? f.saves->share : -1) << " | " << f.title;
  return out.str();
}

bool matches(const Finding& f, const Words& w) {
  for (const auto& [key, value] : w) {
    if (key.empty() && f.kind.text() != value) return false;
    if (key == "rank" && f.ranks != std::vector<int>{std::stoi(value)}) return false;
    if (key == "scope" && f.scope() != value) return false;
    if (key == "phase" && f.phase != value) return false;
    if (key == "by" && (value == "nothing") != f.explained_by.empty()) return false;
    if (key == "cause" && f.cause.text() != value) return false;
    if (key == "pattern" && f.pattern != value) return false;
    if (key == "severity" && name(f.severity) != value) return false;
    if (key == "first" && !in_range(value, static_cast<double>(f.first_step))) return false;
    if (key == "detected" && (f.detected_step < 0 || f.detected_step > std::stoi(value))) return false;
    if (key == "saves" && value == "unknown" && f.saves) return false;
    if (key == "saves" && value != "unknown" && (!f.saves || !in_range(value, f.saves->share))) return false;
    if (key == "says" && f.title.find(value) == std::string::npos) return false;
    if (key == "cost" && !in_range(value, f.cost_share)) return false;
  }
  return true;
}

// An upper-case letter or a figure; names of code ("drop_last=True", "torch.compile") stay as they are written.
bool begins_a_sentence(const std::string& text) {
  const std::string word = text.substr(0, text.find(' '));
  return !text.empty() &&
         (!std::islower(static_cast<unsigned char>(text[0])) || word.find_first_of("_=.(") != std::string::npos);
}

class ScenarioTest : public testing::TestWithParam<std::string> {};

TEST_P(ScenarioTest, FindsWhatItShould) {
  const Scenario s = read(path_of(GetParam()));
  const Snapshot snapshot = Play(s).run();
  std::string all;
  for (const Finding& f : snapshot.findings) all += "  " + show(f) + "\n";
  for (const Finding& f : snapshot.findings) {
    EXPECT_TRUE(allows(f.kind.id(), f.cause.id())) << "diagnose/kinds.def: the kind has no such cause: " << show(f);
    EXPECT_EQ(f.section, section_of(f.kind.id())) << show(f);
    EXPECT_TRUE(scope_of(f.kind.id()) == KindScope::kEither ||
                f.job_scope == (scope_of(f.kind.id()) == KindScope::kJob))
        << show(f);
    EXPECT_TRUE(begins_a_sentence(f.title)) << show(f);
    EXPECT_TRUE(f.action.empty() || begins_a_sentence(f.action)) << show(f) << " | " << f.action;
  }
  ASSERT_FALSE(s.expects.empty()) << "a scenario without expectation checks nothing";
  for (const auto& [command, w] : s.expects) {
    const auto has = [&](auto test) { return std::any_of(snapshot.findings.begin(), snapshot.findings.end(), test); };
    std::string asked = command;
    for (const auto& [k, v] : w) asked += " " + k + "=" + v;
    if (command == "expect") {
      EXPECT_TRUE(has([&](const Finding& f) { return matches(f, w); })) << asked << "\n" << all;
    } else if (command == "expect_silent") {
      EXPECT_FALSE(has([](const Finding& f) { return f.severity != Severity::kInfo; })) << asked << "\n" << all;
    } else if (command == "expect_no") {
      EXPECT_FALSE(has([&](const Finding& f) { return matches(f, w); })) << asked << "\n" << all;
    } else if (command == "expect_primary") {
      ASSERT_GE(snapshot.primary, 0) << all;
      EXPECT_TRUE(matches(snapshot.findings[snapshot.primary], w)) << asked << "\n" << all;
    } else {
      FAIL() << "unknown expectation " << command;
    }
  }
  // Whatever the scenario: the roots share out the loss, effects point to a root above them, none of them is primary.
  double owned = 0;
  for (size_t i = 0; i < snapshot.findings.size(); ++i) {
    const Finding& f = snapshot.findings[i];
    if (f.explained_by.empty()) {
      if (urgency_of(f.kind.id()) != Urgency::kProgress && f.kind != FindingKind::kLateStart) owned += f.cost_share;
      continue;
    }
    EXPECT_NE(snapshot.primary, static_cast<int>(i)) << show(f);
    const auto root = std::find_if(snapshot.findings.begin(), snapshot.findings.begin() + static_cast<long>(i),
                                   [&](const Finding& r) { return r.id == f.explained_by; });
    ASSERT_NE(root, snapshot.findings.begin() + static_cast<long>(i)) << show(f);
    EXPECT_TRUE(root->explained_by.empty()) << show(f);
  }
  EXPECT_LE(owned, 1 + 1e-9) << all;
  // Whatever the scenario: nothing is found before it was fed, and every rank's ledger is closed.
  for (const Finding& f : snapshot.findings)
    EXPECT_LE(f.detected_step, static_cast<int64_t>(snapshot.steps)) << show(f);
  for (const RankStat& r : snapshot.ranks) {
    int64_t sum = 0;
    for (int64_t ns : r.ledger) sum += ns;
    EXPECT_NEAR(static_cast<double>(sum) * 1e-6, r.process_wall_ms, 1e-3 * std::max(1.0, r.process_wall_ms));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ScenarioTest, testing::ValuesIn(files()),
                         [](const auto& info) { return test_name(info.param); });

}  // namespace
}  // namespace stepscope::scenario
