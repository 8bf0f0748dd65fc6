#include "diagnose/thresholds.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <set>

#include "diagnose/engine.h"
#include "diagnose/host_thresholds.h"

namespace stepscope {
namespace {

TEST(Thresholds, EveryOneHasAUnitAReasonAndAnAllowedDefault) {
  std::set<std::string_view> names;
  for (const ThresholdSpec& s : threshold_specs()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    EXPECT_FALSE(s.unit.empty() || s.reason.empty()) << s.name;
    EXPECT_TRUE(check_threshold(s.name, s.standard)) << s.name;
    EXPECT_TRUE(check_threshold(s.name, s.least)) << s.name;
    EXPECT_TRUE(check_threshold(s.name, s.largest)) << s.name;
    for (double bad : {s.least - 1, s.largest * 1.01 + 1, std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      const auto refused = check_threshold(s.name, bad);
      ASSERT_FALSE(refused) << s.name << " " << bad;
      EXPECT_TRUE(refused.error().message.starts_with(std::string(s.name) + " must be ")) << refused.error().message;
    }
  }
  EXPECT_GT(names.size(), 100u);
}

TEST(Thresholds, AnUnknownNameIsRefusedWithTheNearest) {
  const std::pair<const char*, const char*> cases[] = {{"warn_shar", "warn_share"},
                                                       {"gpu_hot", "gpu_hot_c"},
                                                       {"straggler_minz", "straggler_min_z"},
                                                       {"late_start", "late_start_s"}};
  for (const auto& [asked, nearest] : cases) {
    const auto refused = check_threshold(asked, 1);
    ASSERT_FALSE(refused);
    const std::string expected = std::string("the nearest is ") + nearest + " (";
    EXPECT_NE(refused.error().message.find(expected), std::string::npos) << refused.error().message;
  }
  rc::check([](const std::string& name) {
    const auto result = check_threshold(name, 0.5);
    RC_ASSERT(result || !result.error().message.empty());
  });
}

TEST(Thresholds, EveryNameReachesItsField) {
  for (const ThresholdSpec& s : threshold_specs()) {
    const double other = s.standard == s.least ? s.largest : s.least;
    const std::map<std::string, double> overrides = {{std::string(s.name), other}};
    const Thresholds rules = Thresholds::with(overrides), rule_defaults;
    const HostThresholds host = HostThresholds::with(overrides), host_defaults;
    const std::string_view key = s.name;  // `name` is the macro's
    int changed = 0;
#define X(name, standard, least, largest, unit, reason) \
  changed += key == #name ? rules.name == other : rules.name != rule_defaults.name;
    STEPSCOPE_THRESHOLDS(X)
#undef X
#define X(name, standard, least, largest, unit, reason) \
  changed += key == #name ? host.name == other : host.name != host_defaults.name;
    STEPSCOPE_HOST_THRESHOLDS(X)
#undef X
    EXPECT_EQ(changed, 1) << s.name;
  }
}

TEST(Thresholds, TheSnapshotNamesWhatWasChanged) {
  const Engine engine({.thresholds = {{"warn_share", 0.1}, {"gpu_hot_c", 70}, {"crit_share", 0.20}, {"no_such", 1}}});
  const Snapshot s = engine.snapshot();
  ASSERT_EQ(s.run.thresholds.size(), 2u) << "the default is no change; host thresholds count as well";
  EXPECT_EQ(s.run.thresholds[0].name, "gpu_hot_c");
  EXPECT_EQ(s.run.thresholds[0].value, 70);
  EXPECT_EQ(s.run.thresholds[0].standard, 85);
  EXPECT_EQ(s.run.thresholds[1].name, "warn_share");
  ASSERT_EQ(s.observer.notes.size(), 1u);
}

}  // namespace
}  // namespace stepscope
