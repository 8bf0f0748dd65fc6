#include "recorder/work_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace stepscope::recorder {
namespace {

static_assert(WorkTable<int>::kSets == 256);  // index() takes 8 bits

TEST(WorkTable, NothingIsKnownOfNoWork) {
  WorkTable<int> table;
  table.remember(0, 7);
  EXPECT_EQ(table.find(0), nullptr);
  EXPECT_EQ(table.find(4096), nullptr);
}

TEST(WorkTable, TheNewestOfAnAddressHolds) {
  WorkTable<int> table;
  table.remember(4096, 7);
  table.remember(4096, 8);
  ASSERT_NE(table.find(4096), nullptr);
  EXPECT_EQ(*table.find(4096), 8);
  table.clear();
  EXPECT_EQ(table.find(4096), nullptr);
}

// Wherever the allocator puts them: a few works that are alive at once are all found, after any number of others.
TEST(WorkTable, AFewAtOnceAreAlwaysFound) {
  std::mt19937_64 rng(7);
  const auto table = std::make_unique<WorkTable<uint64_t>>();
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint64_t> alive;
    for (size_t i = 0; i < WorkTable<int>::kWays; ++i) {
      alive.push_back(0x7f0000000000 + 16 * (rng() % 1'000'000));
      table->remember(alive.back(), alive.back());
    }
    for (const uint64_t key : alive) {
      ASSERT_NE(table->find(key), nullptr) << round;
      ASSERT_EQ(*table->find(key), key);
    }
  }
}

TEST(WorkTable, OfManyAtOnceHardlyAnyIsLost) {
  std::mt19937_64 rng(8);
  size_t lost = 0;
  for (int round = 0; round < 500; ++round) {
    const auto table = std::make_unique<WorkTable<uint64_t>>();
    std::vector<uint64_t> alive;
    for (int i = 0; i < 64; ++i) {
      alive.push_back(0x7f0000000000 + 16 * (rng() % 100'000'000));
      table->remember(alive.back(), alive.back());
    }
    for (const uint64_t key : alive) lost += !table->find(key);
  }
  EXPECT_LE(lost, 10u);  // of 32,000
}

}  // namespace
}  // namespace stepscope::recorder
