#include "recorder/scalar.h"

#include <gtest/gtest.h>

namespace stepscope::recorder {
namespace {

double half(uint16_t bits) { return scalar_at(&bits, ScalarFormat::kHalf); }

TEST(Scalar, ReadsHalfPrecision) {
  EXPECT_EQ(half(0x3c00), 1.0);
  EXPECT_EQ(half(0xc100), -2.5);
  EXPECT_EQ(half(0x7bff), 65504.0);
  EXPECT_EQ(half(0x0001), 0x1p-24);
  EXPECT_EQ(half(0x0400), 0x1p-14);
  EXPECT_EQ(half(0x0000), 0.0);
  EXPECT_EQ(half(0xfc00), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(half(0x7e00)));
}

TEST(Scalar, ReadsTheOthersAsTheyLie) {
  const uint16_t bfloat = 0xbfc0;
  const float single = 0.1f;
  const double wide = 1e-300;
  EXPECT_EQ(scalar_at(&bfloat, ScalarFormat::kBfloat16), -1.5);
  EXPECT_EQ(scalar_at(&single, ScalarFormat::kFloat), static_cast<double>(0.1f));
  EXPECT_EQ(scalar_at(&wide, ScalarFormat::kDouble), 1e-300);
  EXPECT_TRUE(std::isnan(scalar_at(&wide, ScalarFormat::kNone)));
}

}  // namespace
}  // namespace stepscope::recorder
