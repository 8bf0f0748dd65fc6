// What the tests of the host rules share: findings of facts, by kind.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diagnose/rules_host.h"
#include "host_facts_builder.h"

namespace stepscope::testing {

// What the table of kinds does not allow fails every test that asks.
inline std::vector<Finding> judge(const HostFacts& facts) {
  std::vector<Finding> all = judge_host(facts, HostThresholds{});
  for (const Finding& f : all) {
    EXPECT_TRUE(allows(f.kind.id(), f.cause.id())) << f.kind << " " << f.cause;
    EXPECT_EQ(f.section, section_of(f.kind.id())) << f.kind;
    EXPECT_TRUE(scope_of(f.kind.id()) == KindScope::kEither || f.job_scope == (scope_of(f.kind.id()) == KindScope::kJob)) << f.kind;
  }
  return all;
}

inline const Finding* find(const std::vector<Finding>& all, FindingKind kind) {
  for (const Finding& f : all) {
    if (f.kind == kind) return &f;
  }
  return nullptr;
}

inline std::string kinds(const std::vector<Finding>& all) {
  std::string out;
  for (const Finding& f : all) out += f.kind.str() + "/" + f.cause.str() + " ";
  return out;
}

inline HostFacts with_gpus(int n) {
  HostFacts f = healthy(n);
  for (int i = 0; i < n; ++i) f.devices.push_back(device(i, i));
  return f;
}

}  // namespace stepscope::testing

#define EXPECT_SILENT(facts) EXPECT_EQ(kinds(judge(facts)), "")
