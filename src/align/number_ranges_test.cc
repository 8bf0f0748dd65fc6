#include "align/number_ranges.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

using Numbers = std::vector<int>;

TEST(NumberRanges, AsTheHooksWriteThem) {
  EXPECT_EQ(parse_ranges(""), Numbers{});
  EXPECT_EQ(parse_ranges("3"), Numbers{3});
  EXPECT_EQ(parse_ranges("3,1,2"), (Numbers{3, 1, 2}));
  EXPECT_EQ(parse_ranges("0-3,8-11"), (Numbers{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(parse_ranges("0-6:2,41"), (Numbers{0, 2, 4, 6, 41}));
}

TEST(NumberRanges, EndAtWhatIsNoNumber) {
  EXPECT_EQ(parse_ranges("1,x,3"), Numbers{1});
  EXPECT_EQ(parse_ranges("5-"), Numbers{});
  EXPECT_EQ(parse_ranges("0-6:0"), Numbers{});
  EXPECT_EQ(parse_ranges("-1"), Numbers{});
  EXPECT_LE(parse_ranges("0-2147483647,0-2147483647").size(), size_t{1} << 20);
}

}  // namespace
}  // namespace stepscope
