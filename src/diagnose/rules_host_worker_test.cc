#include <gtest/gtest.h>

#include <cmath>

#include "host_rules.h"

namespace stepscope {
namespace {

using namespace testing;

WorkerGrowth growth(double uss, double rss, double unshared) {
  WorkerGrowth g;
  g.workers = 2;
  g.seconds = 10;
  g.uss_first_bytes = 30e6;
  g.uss_last_bytes = 30e6 + uss;
  g.rss_first_bytes = 1000e6;
  g.rss_last_bytes = 1000e6 + rss;
  g.shared_anon_first_bytes = 900e6;
  g.shared_anon_last_bytes = 900e6 - unshared;
  return g;
}

TEST(WorkerMemoryGrowth, CopiedPagesOfTheParentAreNamed) {
  HostFacts f = healthy(2);
  f.ranks[0].worker_growth = growth(160e6, 0, 158e6);
  const auto all = judge(f);
  ASSERT_EQ(kinds(all), "WORKER_MEMORY_GROWTH/copy_on_write ");
  EXPECT_EQ(all[0].ranks, std::vector<int>{0});
  EXPECT_EQ(all[0].severity, Severity::kWarn);
  f.host.memory_available_bytes = flat(120, 0.5e9);  // less than what may still be copied
  EXPECT_EQ(find(judge(f), FindingKind::kWorkerMemoryGrowth)->severity, Severity::kCrit);
}

TEST(WorkerMemoryGrowth, LookAlikesStaySilent) {
  HostFacts f = healthy(1);
  f.ranks[0].worker_growth = growth(60e6, 0, 60e6);  // below its size
  EXPECT_SILENT(f);
  f.ranks[0].worker_growth = growth(200e6, 195e6, 2e6);  // memory of their own (caches, buffers), seen once
  EXPECT_SILENT(f);
  f.ranks[0].worker_growth = growth(160e6, 0, 20e6);  // nothing was un-shared: pages merely counted anew
  EXPECT_SILENT(f);
}

TEST(WorkerMemoryGrowth, ALeakInTheWorkersIsAVerifiedLine) {
  HostFacts f = healthy(1);
  f.ranks[0].worker_held_bytes = series(120, [](double s) { return 800e6 + 2e6 * s; });
  auto all = judge(f);
  ASSERT_EQ(kinds(all), "WORKER_MEMORY_GROWTH/leak ");
  // New workers each epoch start from nothing: only the present set counts.
  f.ranks[0].worker_held_bytes = series(120, [](double s) { return 400e6 + 20e6 * std::fmod(s, 15); });
  f.ranks[0].workers_since_ns = (100 + 105) * kSecondNs;
  EXPECT_SILENT(f);
}

}  // namespace
}  // namespace stepscope
