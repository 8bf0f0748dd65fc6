// What the tests of the host rules share: findings of facts, by kind.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "diagnose/rules_host.h"
#include "host_facts_builder.h"

namespace stepscope::testing {

inline std::vector<Finding> judge(const HostFacts& f) { return judge_host(f, HostThresholds{}); }

inline const Finding* find(const std::vector<Finding>& all, const std::string& kind) {
  for (const Finding& f : all) {
    if (f.kind == kind) return &f;
  }
  return nullptr;
}

inline std::string kinds(const std::vector<Finding>& all) {
  std::string out;
  for (const Finding& f : all) out += f.kind + "/" + f.cause + " ";
  return out;
}

inline HostFacts with_gpus(int n) {
  HostFacts f = healthy(n);
  for (int i = 0; i < n; ++i) f.devices.push_back(device(i, i));
  return f;
}

}  // namespace stepscope::testing

#define EXPECT_SILENT(facts) EXPECT_EQ(kinds(judge(facts)), "")
