#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "host_rules.h"

namespace stepscope {
namespace {

using namespace testing;

TEST(HostRules, AHealthyNodeIsSilentAndBalanced) {
  const HostFacts f = healthy(4);
  EXPECT_SILENT(f);
  EXPECT_EQ(system_section(f, {}).diagnosis, FindingKind::kBalanced);
  EXPECT_EQ(process_section(f, {}).diagnosis, FindingKind::kBalanced);
  EXPECT_NEAR(*system_section(f, {}).values.at("memory_used_peak_share"), 0.25, 1e-9);
}

TEST(HostRules, NothingSampledIsNoData) {
  const HostFacts f;
  EXPECT_SILENT(f);
  EXPECT_EQ(system_section(f, {}).diagnosis, FindingKind::kNoData);
  EXPECT_EQ(process_section(f, {}).diagnosis, FindingKind::kNoData);
  EXPECT_FALSE(system_section(f, {}).values.at("cpu_share").has_value());
}

RC_GTEST_PROP(HostRules, AnyFactsAreSafeAndEveryFindingIsComplete, ()) {
  HostFacts f = with_gpus(*rc::gen::inRange(0, 4));
  const auto any = [](int n) {
    std::vector<double> v;
    for (int i = 0; i < n; ++i) v.push_back(*rc::gen::arbitrary<double>());
    return v;
  };
  for (RankProcess& r : f.ranks) {
    const auto v = any(120);
    r.held_bytes = series(120, [&](double s) { return v[static_cast<size_t>(s)] * 1e9; });
    r.run_delay_share = series(120, [&](double s) { return std::abs(std::fmod(v[static_cast<size_t>(s)], 1)); });
  }
  for (const Finding& x : judge(f)) {
    RC_ASSERT(!x.kind.empty());
    RC_ASSERT(!x.title.empty());
    RC_ASSERT(!x.action.empty());
    RC_ASSERT(!x.evidence.empty());
    RC_ASSERT(x.section == SectionName::kSystem || x.section == SectionName::kProcess);
    RC_ASSERT(x.job_scope == x.ranks.empty());
    RC_ASSERT(x.cost_share >= 0 && x.cost_share <= 1);
    RC_ASSERT(x.title.find('\n') == std::string::npos);
  }
}

TEST(HostRules, SameFactsSameFindings) {
  HostFacts f = with_gpus(3);
  f.ranks[1].held_bytes = series(120, [](double s) { return 500e6 + 2e6 * s; });
  f.devices[0].utilization_share = flat(120, 0.2);
  const auto a = judge(f), b = judge(f);
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].title, b[i].title);
}

}  // namespace
}  // namespace stepscope
