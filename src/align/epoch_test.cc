// Which epoch a step belongs to: by loaders that are started over, and by what the program says.
#include "align/step_builder.h"

#include <gtest/gtest.h>

#include "training_loop.h"

namespace stepscope {
namespace {

std::vector<int32_t> epochs_of(const std::vector<RankStep>& steps) {
  std::vector<int32_t> out;
  for (const RankStep& s : steps) out.push_back(s.epoch);
  return out;
}

TEST(Epoch, IsHowOftenTheTrainingLoaderWasStartedOver) {
  Loop l;
  for (int epoch = 0; epoch < 3; ++epoch) {
    l.epoch(1, 16);
    for (int i = 0; i < 2; ++i) l.fetch().forward().backward().optimizer();
    l.epoch(2, 16);  // evaluation has a loader of its own
    for (int v = 0; v < 3; ++v) l.fetch(2).forward(1, false);
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0, 1, 1, 2, 2}));
}

TEST(Epoch, ASanityCheckBeforeTrainingDoesNotCount) {
  Loop l;
  l.epoch(2, 16).fetch(2).forward(1, false);
  l.epoch(1, 16).epoch(1, 16);  // looked at, then started
  for (int i = 0; i < 2; ++i) l.fetch().forward().backward().optimizer();
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0}));
}

// Number of the epoch of each step where loaders are passed over in this order, two steps each.
std::vector<int32_t> epochs_of_passes(const std::vector<uint64_t>& loaders) {
  Loop l;
  for (const uint64_t loader : loaders) {
    l.epoch(loader, 16);
    for (int i = 0; i < 2; ++i) l.fetch(loader).forward().backward().optimizer();
    l.begin(Kind::kFetch, loader).pass(10).end(Kind::kFetch, loader, kFetchStop);
  }
  const std::vector<int32_t> each = epochs_of(l.finish());
  std::vector<int32_t> out;
  for (size_t i = 0; i < each.size(); i += 2) {
    EXPECT_EQ(each[i], each[i + 1]);
    out.push_back(each[i]);
  }
  return out;
}

TEST(Epoch, ALoaderThatTakesTheOthersPlaceBeginsOne) {
  EXPECT_EQ(epochs_of_passes({1, 1, 2, 1, 1, 2, 1}), (std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6}))
      << "now and then another";
  EXPECT_EQ(epochs_of_passes({1, 1, 2, 2, 3, 3}), (std::vector<int32_t>{0, 1, 2, 3, 4, 5}))
      << "stages, one after the other";
  EXPECT_EQ(epochs_of_passes({1, 2, 2, 2}), (std::vector<int32_t>{0, 0, 1, 2})) << "a stage of one epoch";
}

TEST(Epoch, LoadersThatHaveTheirTurnInEachBeginNone) {
  EXPECT_EQ(epochs_of_passes({1, 2, 1, 2, 1, 2}), (std::vector<int32_t>{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(epochs_of_passes({1, 2, 3, 1, 2, 3}), (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
}

// A second loader of half the length feeds the same steps, by the same forward or by one of its own.
TEST(Epoch, ALoaderBesideTheFirstBeginsNone) {
  for (const bool own_forward : {false, true}) {
    SCOPED_TRACE(own_forward);
    Loop l;
    for (int epoch = 0; epoch < 3; ++epoch) {
      l.epoch(1, 16);
      for (int i = 0; i < 4; ++i) {
        if (!own_forward && i % 2 == 0) l.epoch(2, 16);
        if (!own_forward) l.fetch(2);
        l.fetch(1).forward().backward();
        if (own_forward && i % 2 == 0) l.epoch(2, 16);
        if (own_forward) l.fetch(2).forward().backward();
        l.optimizer();
      }
    }
    EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2}));
  }
}

TEST(Epoch, TheFirstStepsWordIsTheNumberOfTheFirst) {
  Loop l;
  for (int epoch = 0; epoch < 2; ++epoch) {
    l.epoch(1, 16);
    for (int i = 0; i < 2; ++i) {
      l.fetch().forward().backward().optimizer();
      l.value("epoch", 7 + epoch + 0.5 * (i + 1));  // as trainers count: 8.0 after the last step of epoch 7
    }
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{7, 7, 8, 8}));
}

TEST(Epoch, SaidOnceAtItsEndItNamesNoStepOfItsOwn) {
  Loop l;
  for (int epoch = 1; epoch <= 2; ++epoch) {
    l.epoch(1, 16);
    for (int i = 0; i < 3; ++i) l.fetch().forward().backward().optimizer();
    l.value("epoch", epoch);
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
}

TEST(Epoch, WithoutALoaderTheProgramsWordHolds) {
  Loop l;
  for (int epoch = 3; epoch < 5; ++epoch) {
    l.value("epoch", epoch);
    for (int i = 0; i < 2; ++i) l.forward().backward().optimizer();
  }
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{3, 3, 4, 4}));
}

TEST(Epoch, IsUnknownWithoutAnyWord) {
  Loop l;
  for (int i = 0; i < 2; ++i) l.forward().backward().optimizer();
  l.value("epoch", -1).value("epoch", 1e30).forward().backward().optimizer();
  EXPECT_EQ(epochs_of(l.finish()), (std::vector<int32_t>{-1, -1, -1}));
}

}  // namespace
}  // namespace stepscope
