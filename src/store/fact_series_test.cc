#include "store/fact_series.h"

#include <gtest/gtest.h>

#include <set>

#include "scratch_folder.h"
#include "store/run_reader.h"

namespace stepscope {
namespace {

void sample(SampledSeries& series, int64_t time_ns, double value) {
  series.points.push_back({time_ns, value});
  ++series.count;
  series.last = value;
}

TEST(FactSeries, EachNewSampleIsHandedOverOnce) {
  testing::ScratchFolder folder;
  HostFacts facts;
  facts.ranks.resize(2);
  facts.ranks[1].rank = 1, facts.ranks[0].rank = 0;
  facts.devices.resize(1);
  facts.devices[0].index = 3;
  {
    RunWriter writer(folder.file("run.db"), {.run_id = "r"});
    FactFeeder feeder;
    for (int64_t second = 1; second <= 3; ++second) {
      facts.last_ns = second * 1'000'000'000;
      sample(facts.host.cpu_share, facts.last_ns, 0.1 * static_cast<double>(second));
      sample(facts.ranks[1].rss_bytes, facts.last_ns, 1e6);
      if (second == 2) sample(facts.ranks[1].worker_rss_bytes, facts.last_ns, 2e6);
      if (second == 3) sample(facts.devices[0].power_w, facts.last_ns, 300);
      feeder.feed(facts, writer);
      feeder.feed(facts, writer);  // nothing new
    }
  }
  auto reader = RunReader::open(folder.file("run.db"));
  ASSERT_TRUE(reader);
  const auto keys = reader->series().value();
  EXPECT_EQ(
      std::set<SeriesKey>(keys.begin(), keys.end()),
      (std::set<SeriesKey>{
          {"host", -1, "cpu_share"}, {"rank", 1, "rss_bytes"}, {"worker", 1, "rss_bytes"}, {"device", 3, "power_w"}}));
  const auto cpu = reader->samples({"host", -1, "cpu_share"}).value();
  ASSERT_EQ(cpu.size(), 3u);
  EXPECT_NEAR(cpu[1].at_s, 2, 1e-3);
  EXPECT_NEAR(cpu[1].value, 0.2, 1e-5);
  EXPECT_EQ(reader->samples({"worker", 1, "rss_bytes"})->size(), 1u);
}

TEST(FactSeries, EveryScopeHasItsSeries) {
  EXPECT_EQ(sizeof(HostSeries), 17 * sizeof(SampledSeries)) << "a new series wants a line in fact_series.cc";
  HostFacts facts;
  facts.ranks.resize(1);
  facts.devices.resize(1);
  facts.cgroups.resize(1);
  sample(facts.host.io_full_pressure_share, 1, 1);
  sample(facts.cgroups[0].throttled_ms_per_s, 1, 1);
  sample(facts.ranks[0].write_bytes_per_s, 1, 1);
  sample(facts.ranks[0].worker_pss_bytes, 1, 1);
  sample(facts.devices[0].dram_active_share, 1, 1);
  std::set<std::string> names;
  for_each_series(facts, [&](const SeriesKey& key, const SampledSeries&) { names.insert(key.scope + "." + key.name); });
  EXPECT_EQ(names, (std::set<std::string>{"host.io_full_pressure_share", "cgroup.throttled_ms_per_s",
                                          "rank.write_bytes_per_s", "worker.pss_bytes", "device.dram_active_share"}));
}

}  // namespace
}  // namespace stepscope
