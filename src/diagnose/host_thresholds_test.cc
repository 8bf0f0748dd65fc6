#include "diagnose/host_thresholds.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "diagnose/thresholds.h"

namespace stepscope {
namespace {

// name = value pairs of a table.
std::map<std::string, double> spec_values(const std::string& table) {
  std::ifstream in(std::string(SS_SOURCE_DIR) + "/spec/rules.toml");
  std::map<std::string, double> out;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with('[')) inside = line.starts_with(table);
    const size_t equals = line.find(" = ");
    if (!inside || line.starts_with('#') || equals == std::string::npos) continue;
    out[line.substr(0, equals)] = std::stod(line.substr(equals + 3));
  }
  return out;
}

TEST(HostThresholds, AgreeWithTheSpec) { EXPECT_EQ(spec_values("[host]"), HostThresholds{}.values()); }

TEST(Thresholds, AgreeWithTheSpec) { EXPECT_EQ(spec_values("[rules]"), Thresholds{}.values()); }

TEST(HostThresholds, AreSetByNameWithOrWithoutTable) {
  HostThresholds t;
  EXPECT_TRUE(t.set("min_samples", 9).has_value());
  EXPECT_TRUE(t.set("host.gpu_hot_c", 70).has_value());
  EXPECT_DOUBLE_EQ(t.min_samples, 9);
  EXPECT_DOUBLE_EQ(t.gpu_hot_c, 70);
  EXPECT_FALSE(t.set("host.no_such", 1).has_value());
  EXPECT_DOUBLE_EQ(HostThresholds::with({{"warmup_steps", 3}, {"host.creep_min_bytes", 5}}).creep_min_bytes, 5);
}

}  // namespace
}  // namespace stepscope
