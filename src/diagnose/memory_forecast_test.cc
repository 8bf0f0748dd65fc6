#include "diagnose/memory_forecast.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(MemoryForecast, IsWhatIsLeftOverTheRateAndItsRange) {
  const GrowthVerdict v{.bytes_per_s = 10, .bytes_per_step = 2, .per_s = {0.8, 1.25}, .per_step = {0.5, 2}};
  const GrowthVerdict* const one[] = {&v};
  const auto f = forecast(one, 5000, 1000);
  ASSERT_TRUE(f && f->steps);
  EXPECT_DOUBLE_EQ(f->seconds.expected, 100);
  EXPECT_DOUBLE_EQ(f->seconds.low, 80);
  EXPECT_DOUBLE_EQ(f->seconds.high, 125);
  EXPECT_DOUBLE_EQ(f->steps->expected, 500);
  EXPECT_DOUBLE_EQ(f->steps->low, 250);
  EXPECT_DOUBLE_EQ(f->steps->high, 1000);
  EXPECT_EQ(range_text({.expected = 600, .low = 500, .high = 725}), "8 min 20 s to 12 min 05 s");
  EXPECT_EQ(range_text({.expected = 600, .low = 600, .high = 600}), "10 min 00 s");
}

TEST(MemoryForecast, ThoseThatShareWhatIsLeftAreAddedUp) {
  const GrowthVerdict a{.bytes_per_s = 10, .bytes_per_step = 2}, b{.bytes_per_s = 30};
  const GrowthVerdict* const both[] = {&a, &b};
  const auto f = forecast(both, 5000, 1000);
  ASSERT_TRUE(f);
  EXPECT_DOUBLE_EQ(f->seconds.expected, 25);
  EXPECT_FALSE(f->steps);  // of b no steps are known
}

TEST(MemoryForecast, GrowthThatMayBeNoneAndLimitsThatAreUnknownTellNothing) {
  const GrowthVerdict unsure{.bytes_per_s = 10, .per_s = {-0.1, 2}}, sure{.bytes_per_s = 10};
  const GrowthVerdict *const maybe[] = {&unsure}, *const certain[] = {&sure};
  EXPECT_FALSE(forecast(maybe, 5000, 1000));
  EXPECT_FALSE(forecast(certain, 0, 0));
  EXPECT_FALSE(forecast({}, 5000, 1000));
  EXPECT_DOUBLE_EQ(forecast(certain, 5000, -3)->seconds.expected, 0);  // beyond it
}

}  // namespace
}  // namespace stepscope
