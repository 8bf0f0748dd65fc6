#include "align/loader_roles.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr uint64_t kTrain = 10, kTest = 20;

TEST(LoaderRoles, ABatchThatLeadsToGradientsIsForTraining) {
  LoaderRoles roles;
  std::vector<uint64_t> training;
  roles.created(kTrain, true, 32);
  EXPECT_EQ(roles.epoch(), -1);
  EXPECT_EQ(roles.fetch_category(kTrain), Category::kEpochStart);  // its workers start
  EXPECT_EQ(roles.fetched(kTrain, 500, Category::kEpochStart), 32);
  EXPECT_EQ(roles.fetch_category(kTrain), Category::kInputWait);
  EXPECT_FALSE(roles.trains(kTrain));
  roles.training_work(training);
  EXPECT_TRUE(roles.trains(kTrain));
  EXPECT_TRUE(roles.newest_feeds_training());
  EXPECT_EQ(training, std::vector{kTrain});
  EXPECT_EQ(roles.epoch(), 0);
  roles.created(kTrain, true, 32);
  EXPECT_EQ(roles.epoch(), 0);  // until it trains again
  roles.fetched(kTrain, 500, Category::kEpochStart);
  roles.training_work(training);
  EXPECT_EQ(roles.epoch(), 1);
}

TEST(LoaderRoles, WhatAnEvaluationWasChargedIsTakenBackOnce) {
  LoaderRoles roles;
  roles.created(kTest, true, 8);
  roles.fetched(kTest, 500, Category::kEpochStart);
  roles.passed(40);
  EXPECT_TRUE(roles.counts(8, 1000, false));  // as far as is known
  roles.fetched(kTest, 70, Category::kInputWait);
  const LoaderRoles::Wrongly wrongly = roles.evaluation_work();
  EXPECT_EQ(wrongly.epoch_ns, 500);
  EXPECT_EQ(wrongly.fetch_ns, 70);
  EXPECT_EQ(wrongly.gap_ns, 40);
  EXPECT_EQ(wrongly.samples, 8);
  EXPECT_EQ(wrongly.tokens, 1000);
  EXPECT_TRUE(roles.evaluates(kTest));
  EXPECT_EQ(roles.fetch_category(kTest), Category::kValidation);
  EXPECT_EQ(roles.epoch_category(kTest), Category::kValidation);
  EXPECT_FALSE(roles.counts(8, 1000, false));
  roles.fetched(kTest, 70, Category::kValidation);
  EXPECT_EQ(roles.evaluation_work().fetch_ns, 0);
}

// A teacher's forward looks like an evaluation of the batch.
TEST(LoaderRoles, GradientsOverruleAnEvaluation) {
  LoaderRoles roles;
  std::vector<uint64_t> training;
  roles.fetched(kTrain, 10, Category::kInputWait);
  roles.evaluation_work();
  EXPECT_TRUE(roles.evaluates(kTrain));
  roles.training_work(training);
  EXPECT_TRUE(roles.trains(kTrain));
  roles.fetched(kTrain, 10, Category::kInputWait);
  EXPECT_EQ(roles.evaluation_work().fetch_ns, 0);
  EXPECT_TRUE(roles.trains(kTrain));
}

TEST(LoaderRoles, WorkSaysNothingOfABatchBeforeTheLastStep) {
  LoaderRoles roles;
  std::vector<uint64_t> training;
  roles.fetched(kTest, 10, Category::kInputWait);
  roles.work_ended();
  roles.training_work(training);
  EXPECT_TRUE(training.empty());
  EXPECT_FALSE(roles.trains(kTest));
}

TEST(LoaderRoles, WithoutALoaderTheModeDecides) {
  LoaderRoles roles;
  EXPECT_TRUE(roles.counts(4, 0, false));
  EXPECT_FALSE(roles.counts(4, 0, true));
}

// A list of all indices is made at the first fetch of each iterator; the fetch itself stays input.
TEST(LoaderRoles, AFirstFetchTakesMoreThanAUsualOne) {
  LoaderRoles roles;
  EXPECT_EQ(roles.opening_ns(kTrain, 1000), 0) << "not known";
  const auto epoch = [&](int64_t first_ns) {
    roles.created(kTrain, false, 8);
    const int64_t opening_ns = roles.opening_ns(kTrain, first_ns);
    roles.fetched(kTrain, first_ns, Category::kInputWait);
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(roles.opening_ns(kTrain, 5000), 0) << "no first one";
      roles.fetched(kTrain, 100, Category::kInputWait);
    }
    return opening_ns;
  };
  EXPECT_EQ(epoch(5000), 0) << "nothing to compare it with";
  EXPECT_EQ(epoch(5000), 4900);
  EXPECT_EQ(epoch(250), 0) << "as fetches vary";
}

// next(iter(loader)) in each step: every fetch is a first one, and none is an opening.
TEST(LoaderRoles, IteratorsOfOneFetchHaveNoOpening) {
  LoaderRoles roles;
  for (int i = 0; i < 5; ++i) {
    roles.created(kTrain, false, 8);
    EXPECT_EQ(roles.opening_ns(kTrain, 5000), 0);
    roles.fetched(kTrain, 5000, Category::kInputWait);
  }
}

}  // namespace
}  // namespace stepscope
