// Whole pages as they are printed, in tests/golden/: a change of wording shows as a diff to be read by a person.
// `tools/renew_golden.sh` writes them anew.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "example_snapshot.h"
#include "report/reporters.h"

namespace stepscope {
namespace {

struct Golden {
  const char* name;
  Snapshot (*snapshot)();
};
const Golden kGolden[] = {
    {"healthy", [] { return examples::balanced(); }},    {"straggler", [] { return examples::straggler(4); }},
    {"crash", [] { return examples::rank_lost(); }},     {"no_data", [] { return examples::empty(); }},
    {"half_seen", [] { return examples::half_seen(); }}, {"gpu_job", [] { return examples::gpu_job(); }},
};

class GoldenTest : public testing::TestWithParam<std::tuple<Golden, const char*>> {};

TEST_P(GoldenTest, ThePageIsAsItWas) {
  const auto& [golden, format] = GetParam();
  const Reporter* reporter = reporter_named(format);
  ASSERT_NE(reporter, nullptr);
  const std::string page = reporter->render(
      golden.snapshot(), {.folder = "logs/demo", .files = {"final_summary.json", "final_summary.txt"}});
  const std::string path = std::string(SS_SOURCE_DIR) + "/tests/golden/" + golden.name + "." +
                           std::string(reporter->file.substr(reporter->file.rfind('.') + 1));
  if (std::getenv("STEPSCOPE_RENEW_GOLDEN")) std::ofstream(path) << page;
  std::ostringstream kept;
  kept << std::ifstream(path).rdbuf();
  EXPECT_TRUE(kept.str() == page) << path << " differs; tools/renew_golden.sh writes it anew. Now:\n" << page;
}

INSTANTIATE_TEST_SUITE_P(Pages, GoldenTest,
                         testing::Combine(testing::ValuesIn(kGolden), testing::Values("text", "html")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param);
                         });

}  // namespace
}  // namespace stepscope
