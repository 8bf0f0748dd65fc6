#include <gtest/gtest.h>

#include "example_snapshot.h"
#include "report/page.h"

namespace stepscope {
namespace {

std::string told(const Snapshot& s) {
  const Page page = build_page(s, {});
  const Block* block = block_of(page, BlockKind::kForecast);
  return block ? std::get<Lines>(block->elements.at(0)).items.at(0) : "";
}

TEST(Forecast, SaysWhoReachesWhichLimitAndWhen) {
  EXPECT_EQ(told(examples::creeping()),
            "At this rate rank 1 reaches the limit of the control group (64.0 GiB) in 12 min 00 s to 15 min 00 s, "
            "1,240 to 1,500 steps");
  EXPECT_EQ(
      told(examples::creeping(Severity::kCrit, std::nullopt)).find("At this rate ranks 0, 1 together reach the limit"),
      0u);
}

TEST(Forecast, OfARunThatHasEndedItSaysWhatWouldHaveBeen) {
  Snapshot s = examples::creeping();
  s.run.status = "completed";
  EXPECT_NE(told(s).find("rank 1 would have reached the limit of the control group (64.0 GiB) after another 12 min"),
            std::string::npos);
}

TEST(Forecast, PromisesNothingOfWhatIsNotCertain) {
  EXPECT_EQ(told(examples::creeping(Severity::kInfo)), "");
  EXPECT_EQ(told(examples::straggler()), "");
  Snapshot far = examples::creeping();
  far.findings.front().evidence[1].value = 31.0 * 86400;
  EXPECT_EQ(told(far), "");
  Snapshot without_range = examples::creeping();
  without_range.findings.front().evidence.erase(without_range.findings.front().evidence.begin() + 2);
  EXPECT_EQ(told(without_range), "");
}

}  // namespace
}  // namespace stepscope
