// Who belongs to which start of the ranks: each row of evidence, and its look-alike.
#include "agent/attempt.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr int64_t kS = 1'000'000'000;

Claim claim(int rank, int64_t opened_s, int64_t active_s, bool left, int world = 2, int restarts = 0) {
  Claim c;
  c.rank = rank, c.opened_ns = opened_s * kS, c.active_ns = active_s * kS, c.left = left;
  c.world_size = world, c.restarts = restarts;
  return c;
}

TEST(AttemptTest, PlaceByEvidence) {
  struct Case {
    const char* what;
    Claim newcomer;
    std::vector<Claim> members;
    Place place;
  };
  const Claim alive0 = claim(0, 10, 100, false), alive1 = claim(1, 10, 100, false), gone0 = claim(0, 10, 50, true),
              gone1 = claim(1, 10, 50, true);
  Claim said = claim(0, 10, 10, false);
  said.only_said_so = true;
  const Case cases[] = {
      {"the first of all", claim(1, 10, 11, false), {}, Place::kBegins},
      {"a free rank", claim(1, 11, 12, false), {alive0}, Place::kJoins},
      {"a free rank whose peer has ended at once", claim(1, 11, 60, false), {gone0}, Place::kJoins},
      {"a free rank after all had gone", claim(1, 60, 70, false), {gone0}, Place::kBegins},
      {"both again after all had gone", claim(0, 60, 70, false), {gone0, gone1}, Place::kBegins},
      {"one replaced while the other trains", claim(1, 60, 70, false), {alive0, gone1}, Place::kReplaces},
      {"one that trained beside its holder", claim(1, 20, 70, false), {alive0, gone1}, Place::kWaits},
      {"two at once", claim(1, 20, 70, false), {alive0, alive1}, Place::kWaits},
      {"beside, and they have gone", claim(1, 20, 70, false), {gone0, gone1}, Place::kBegins},
      {"beside, and it has gone too", claim(1, 20, 70, true), {gone0, gone1}, Place::kWaits},
      {"restarted by the launcher", claim(0, 60, 70, false, 2, 1), {gone0, gone1}, Place::kBegins},
      {"restarted, an old one lingers silently", claim(0, 110, 120, false, 2, 1), {gone1, alive0}, Place::kBegins},
      {"another launch restarts beside us", claim(0, 60, 70, false, 2, 1), {alive0, alive1}, Place::kWaits},
      {"counts less: a later launch", claim(0, 60, 70, false, 2, -1), {gone0, gone1}, Place::kBegins},
      {"counts less and is older: late evidence", claim(0, 5, 70, false, 2, -1), {alive0}, Place::kHistory},
      {"another world after all had gone", claim(1, 60, 70, false, 3), {gone0, gone1}, Place::kBegins},
      {"another world beside us", claim(1, 60, 70, false, 3), {alive0}, Place::kWaits},
      {"another world, older and gone", claim(1, 5, 9, true, 3), {alive0}, Place::kHistory},
      {"world not known yet", claim(1, 11, 12, false, 0), {alive0}, Place::kJoins},
      {"main process leaves the rank to its child", claim(0, 11, 12, false), {said}, Place::kTakesOver},
  };
  for (Case c : cases) {
    Attempt attempt{.restarts = c.newcomer.restarts < 0 ? 1 : 0, .world_size = 2};
    if (c.newcomer.restarts < 0) c.newcomer.restarts = 0;
    Members members;
    const Claim* holder = nullptr;
    for (const Claim& member : c.members) {
      members.add(member);
      if (member.rank == c.newcomer.rank) holder = &member;
    }
    EXPECT_EQ(place_of(c.newcomer, attempt, members, holder), c.place) << c.what;
  }
}

TEST(AttemptTest, ClockNamesTheNearestStepAndWaitsForOneThatIsLater) {
  StepClock clock;
  EXPECT_EQ(clock.step_at(5), std::nullopt);
  EXPECT_EQ(clock.next(), 0u);
  for (uint32_t i = 0; i < 10'000; ++i) clock.note(i, 100 * (i + 1));
  clock.note(9'999, 5);  // another rank's end of the same step
  EXPECT_EQ(clock.next(), 10'000u);
  EXPECT_EQ(clock.step_at(1'000'000), 9'999u);
  EXPECT_EQ(clock.step_at(1'000'001), std::nullopt);
  EXPECT_EQ(clock.step_at(900'040), 8'999u);
  EXPECT_EQ(clock.step_at(900'060), 9'000u);
  EXPECT_EQ(clock.step_at(0), 10'000u - 4096) << "the oldest that is kept";
}

}  // namespace
}  // namespace stepscope
