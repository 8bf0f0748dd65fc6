// What an agent holds is bounded in bytes, whatever the world's size (budget: RSS <= 64 MiB for 8 ranks,
// docs/scale.md).
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>

#include "local_ranks.h"

namespace stepscope {
namespace {

size_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

// The most that is held at a look beyond what was held before.
size_t held_bytes(const examples::LocalRanks& job) {
  const size_t before = heap_bytes();
  size_t most = 0;
  job.run([&] { most = std::max(most, heap_bytes() - std::min(before, heap_bytes())); });
  return most;
}

TEST(WorldMemory, EightLocalRanksStayInTheBudgetWhateverTheWorld) {
  if (heap_bytes() == 0) GTEST_SKIP() << "another allocator";
  const examples::LocalRanks small{.world = 8, .steps = 400};
  const size_t of_small = held_bytes(small);
  EXPECT_GT(of_small, size_t{4} << 20) << "the figure measures nothing";
  EXPECT_LE(of_small, size_t{48} << 20);
  for (const int world : {512, 1024, 16384}) {
    examples::LocalRanks wide = small;
    wide.world = world;
    EXPECT_LE(held_bytes(wide), of_small + (size_t{1} << 20)) << world;
  }
}

}  // namespace
}  // namespace stepscope
