#include "analyze/host_load.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(HostLoad, TwoRanksOnTwoCoresMayShareOne) {
  // Both: 2 of 1 pair, alone: 1 of 1.
  EXPECT_DOUBLE_EQ((HostLoad{.cores = 2}.most_slowdown_per_peer(2)), 1);
}

TEST(HostLoad, AnIdleHostSlowsNobodyDown) {
  EXPECT_EQ((HostLoad{.cores = 64}.most_slowdown_per_peer(2)), 0);
  EXPECT_EQ((HostLoad{.cores = 64}.most_slowdown_per_peer(32)), 0);
}

TEST(HostLoad, MoreThanHalfOfTheCores) {
  // 8 ranks of 6 cores each and 4 cores of others ask for 52 of 32: 1.625 times; one rank for 10. Seven peers.
  const HostLoad load{.cores = 64, .rank_cores = 6, .others_cores = 4};
  EXPECT_DOUBLE_EQ(load.most_slowdown_per_peer(8), (52.0 / 32 - 1) / 7);
}

// With a stranger who wants a core, one rank is slowed down already: 3 to 2, not 2 to 1.
TEST(HostLoad, StrangersSlowBothDown) {
  EXPECT_DOUBLE_EQ((HostLoad{.cores = 2, .others_cores = 1}.most_slowdown_per_peer(2)), 0.5);
}

// What they use may all be taken from one rank, and a core's other half is worth as much as itself.
TEST(HostLoad, OthersSlowARankDownByWhatTheyUse) {
  EXPECT_DOUBLE_EQ((HostLoad{.cores = 2, .others_cores = 0.3}.most_slowdown_by_others(2)), 0.3);
  EXPECT_DOUBLE_EQ((HostLoad{.cores = 32, .rank_cores = 2, .others_cores = 28}.most_slowdown_by_others(2)), 1);
  EXPECT_DOUBLE_EQ((HostLoad{.cores = 32, .rank_cores = 4, .others_cores = 10}.most_slowdown_by_others(2)), 1);
  EXPECT_EQ((HostLoad{.cores = 32, .others_cores = 14}.most_slowdown_by_others(2)), 0);  // half of the cores is enough
  EXPECT_EQ((HostLoad{.cores = 2, .others_cores = 0.05}.most_slowdown_by_others(2)), 0);
  EXPECT_EQ(HostLoad{}.most_slowdown_by_others(2), 0);
}

TEST(HostLoad, NothingIsKnown) {
  EXPECT_EQ(HostLoad{}.most_slowdown_per_peer(4), 1);
  EXPECT_EQ(HostLoad{}.most_slowdown_per_peer(1), 0);
  EXPECT_FALSE(HostLoad{}.has_strangers());
}

TEST(HostLoad, StrangersAreThoseForWhomRanksWait) {
  EXPECT_TRUE((HostLoad{.cores = 2, .others_cores = 0.5, .run_delay = 0.1}.has_strangers()));
  EXPECT_FALSE((HostLoad{.cores = 2, .others_cores = 0.5, .run_delay = 0.01}.has_strangers()));
  EXPECT_FALSE((HostLoad{.cores = 2, .others_cores = 0.05, .run_delay = 0.1}.has_strangers()));
}

}  // namespace
}  // namespace stepscope
