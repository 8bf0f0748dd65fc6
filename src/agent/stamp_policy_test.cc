#include "agent/stamp_policy.h"

#include <gtest/gtest.h>

#include <vector>

namespace stepscope {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

// Asks every 100 ms of a job of `per_s` steps a second; the times (s) and windows that came back.
struct Asked {
  double at_s;
  uint64_t ahead;
};
std::vector<Asked> play(StampPolicy& policy, double per_s, double seconds, bool suspicious, double from_s = 1) {
  std::vector<Asked> out;
  for (double t = 0; t < seconds; t += 0.1) {
    const auto ends = static_cast<uint64_t>(t * per_s);
    if (const auto until = policy.ask(ends, suspicious, static_cast<uint64_t>((from_s + t) * kSecond)))
      out.push_back({t, *until - ends});
  }
  return out;
}

TEST(StampPolicy, SamplesEveryTenSecondsFarEnoughAhead) {
  StampPolicy policy;
  const auto asked = play(policy, 20, 60, false);
  ASSERT_GE(asked.size(), 5u);
  ASSERT_LE(asked.size(), 6u);
  for (size_t i = 1; i < asked.size(); ++i) EXPECT_NEAR(asked[i].at_s - asked[i - 1].at_s, 10, 0.2);
  for (const Asked& a : asked)
    EXPECT_NEAR(static_cast<double>(a.ahead), StampPolicy::kWindow + 20 * StampPolicy::kReachS, 2);
  StampPolicy fast;
  for (const Asked& a : play(fast, 3000, 30, false)) EXPECT_GE(a.ahead, 3000 * StampPolicy::kReachS);
}

TEST(StampPolicy, LooksMoreOftenUnderSuspicion) {
  StampPolicy policy;
  EXPECT_GE(play(policy, 20, 60, true).size(), 28u);
}

TEST(StampPolicy, NeitherWarmUpNorAJobThatStandsIsAsked) {
  StampPolicy policy;
  EXPECT_TRUE(play(policy, 1, 15, true).empty());
  StampPolicy standing;
  for (int i = 0; i < 100; ++i)
    EXPECT_FALSE(standing.ask(500, true, kSecond + static_cast<uint64_t>(i) * kSecond / 10));
}

TEST(StampPolicy, ANewAttemptStartsAgain) {
  StampPolicy policy;
  ASSERT_FALSE(play(policy, 20, 15, false).empty());
  EXPECT_FALSE(policy.ask(0, false, 20 * kSecond));
  EXPECT_FALSE(play(policy, 20, 15, false, 21).empty());
}

}  // namespace
}  // namespace stepscope
