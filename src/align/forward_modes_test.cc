#include "align/forward_modes.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr uint64_t kModel = 1, kTeacher = 2;

TEST(ForwardModes, EvalModeIsAnEvaluationOnceTheModelHasTrainedInTrainMode) {
  ForwardModes modes;
  EXPECT_FALSE(modes.evaluates(kModel, false));  // nothing is known yet
  EXPECT_EQ(modes.backward(), 0);                // and a backward followed: it trains in eval mode
  EXPECT_FALSE(modes.evaluates(kModel, false));

  ForwardModes usual;
  EXPECT_FALSE(usual.evaluates(kModel, true));
  EXPECT_EQ(usual.backward(), 0);
  EXPECT_TRUE(usual.evaluates(kModel, false));
  usual.batch();
  EXPECT_EQ(usual.backward(), 0);  // of nothing that ran since the batch
  EXPECT_TRUE(usual.evaluates(kModel, false));
}

TEST(ForwardModes, ABackwardGivesBackWhatWasTakenWrongly) {
  ForwardModes modes;
  modes.evaluates(kModel, true);
  modes.backward();
  EXPECT_TRUE(modes.evaluates(kModel, false));  // an attack on the model in eval mode
  modes.evaluated(kModel, 700);
  EXPECT_EQ(modes.backward(), 700);
  EXPECT_FALSE(modes.evaluates(kModel, false));  // learned for good
}

TEST(ForwardModes, WithoutGradientsInEachStepIsAPartOfTheStep) {
  ForwardModes modes;
  const auto step = [&](bool teacher) {
    modes.evaluates(kModel, true);
    const bool works = teacher && modes.works_for_step(kTeacher);
    modes.backward();
    modes.step_ended();
    return works;
  };
  EXPECT_FALSE(step(true));  // once may be anything
  EXPECT_TRUE(step(true));
  EXPECT_TRUE(step(true));
  EXPECT_FALSE(step(false));
  EXPECT_FALSE(step(true));  // now and then: a validation
  EXPECT_FALSE(modes.works_for_step(kModel));
  EXPECT_TRUE(step(true));
  EXPECT_TRUE(modes.works_for_step(kTeacher));  // and again in the step that has begun
  EXPECT_TRUE(modes.works_for_step(kTeacher));
}

TEST(ForwardModes, WhatTrainsItselfEvaluatesWithoutGradients) {
  ForwardModes modes;
  for (int step = 0; step < 4; ++step) {
    EXPECT_FALSE(modes.works_for_step(kModel));
    modes.evaluates(kModel, true);
    modes.backward();
    modes.step_ended();
  }
}

TEST(ForwardModes, ModulesAreToldApart) {
  ForwardModes modes;
  modes.evaluates(kModel, true);
  modes.backward();
  EXPECT_FALSE(modes.evaluates(kTeacher, false));  // never seen to train
  EXPECT_TRUE(modes.evaluates(kModel, false));
  modes.evaluated(kTeacher, 50);
  modes.evaluated(kModel, 30);
  EXPECT_EQ(modes.backward(), 80);
}

TEST(ForwardModes, MoreModulesThanAreKeptAreNoEvaluations) {
  ForwardModes modes;
  for (uint64_t id = 0; id < ForwardModes::kMaxModules; ++id) modes.evaluates(id, true);
  modes.backward();
  EXPECT_TRUE(modes.evaluates(0, false));
  EXPECT_FALSE(modes.evaluates(ForwardModes::kMaxModules, true));
  modes.backward();
  EXPECT_FALSE(modes.evaluates(ForwardModes::kMaxModules, false));
}

}  // namespace
}  // namespace stepscope
