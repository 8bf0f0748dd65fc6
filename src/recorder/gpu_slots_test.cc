#include "recorder/gpu_slots.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

namespace stepscope::recorder {
namespace {

TEST(FreeList, GivesEverySlotOnceAndThenNone) {
  auto list = std::make_unique<FreeList<64>>();
  EXPECT_EQ(list->pop(), kNoSlot);
  for (uint32_t i = 0; i < 64; ++i) list->push(i);
  std::set<uint32_t> seen;
  for (uint32_t i = 0; i < 64; ++i) seen.insert(list->pop());
  EXPECT_EQ(seen.size(), 64u);
  EXPECT_EQ(seen.count(kNoSlot), 0u);
  EXPECT_EQ(list->pop(), kNoSlot);
}

TEST(FreeList, NeverGivesASlotToTwoThreads) {
  constexpr uint32_t kSlots = 16;
  auto list = std::make_unique<FreeList<kSlots>>();
  for (uint32_t i = 0; i < kSlots; ++i) list->push(i);
  std::atomic<int> owners[kSlots] = {};
  std::atomic<int> shared{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20'000; ++i) {
        const uint32_t slot = list->pop();
        if (slot == kNoSlot) continue;
        if (owners[slot].fetch_add(1) != 0) ++shared;
        owners[slot].fetch_sub(1);
        list->push(slot);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(shared.load(), 0);
}

TEST(PendingQueue, KeepsTheOrderOfOneProducer) {
  auto queue = std::make_unique<PendingQueue<8>>();
  for (int lap = 0; lap < 5; ++lap) {
    for (uint32_t i = 0; i < 8; ++i) EXPECT_TRUE(queue->push(i + lap * 10));
    EXPECT_FALSE(queue->push(99));
    for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(queue->pop(), i + lap * 10);
    EXPECT_EQ(queue->pop(), kNoSlot);
  }
}

TEST(PendingQueue, LosesNothingFromSeveralProducers) {
  auto queue = std::make_unique<PendingQueue<1024>>();
  constexpr uint32_t kEach = 20'000;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEach;)
        if (queue->push(t << 24 | i)) ++i;
    });
  std::vector<uint32_t> last(3, 0);
  uint32_t got = 0, disorder = 0;
  while (got < 3 * kEach) {
    const uint32_t v = queue->pop();
    if (v == kNoSlot) continue;
    disorder += (v & 0xffffff) != last[v >> 24]++;
    ++got;
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(disorder, 0u);
  EXPECT_EQ(queue->pop(), kNoSlot);
}

}  // namespace
}  // namespace stepscope::recorder
