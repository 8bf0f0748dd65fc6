#include "report/reporters.h"

#include <gtest/gtest.h>

#include <set>

#include "example_snapshot.h"

namespace stepscope {
namespace {

TEST(Reporters, EachHasItsOwnNameAndFileAndWritesSomething) {
  std::set<std::string_view> names, files;
  for (const Reporter& reporter : reporters()) {
    EXPECT_TRUE(names.insert(reporter.name).second) << reporter.name;
    EXPECT_TRUE(files.insert(reporter.file).second) << reporter.file;
    EXPECT_EQ(reporter_named(reporter.name), &reporter);
    EXPECT_NE(reporter.render(examples::straggler(), {}).find("ddp_demo"), std::string::npos) << reporter.name;
  }
  EXPECT_EQ(reporter_named("quantum"), nullptr);
  EXPECT_EQ(reporter_names(), "json, html, text");
}

}  // namespace
}  // namespace stepscope
