#include "analyze/worker_turns.h"

#include <gtest/gtest.h>

#include <functional>

namespace stepscope {
namespace {

// One rank whose step `s` waits wait(s) ms; a new epoch every `epoch` steps.
class Loading {
 public:
  Loading(size_t steps, const std::function<double(size_t)>& wait, size_t epoch = 1 << 20, size_t first = 0) {
    table_.resize(steps);
    for (size_t i = 0; i < steps; ++i) {
      const size_t step = first + i;
      Cell cell{};
      cell.rank = 0, cell.fetches = 1, cell.epoch = static_cast<int32_t>(step / epoch);
      cell.ms[index(Category::kInputWait)] = static_cast<float>(wait(step));
      table_[i].step = step, table_[i].cells = {cell};
    }
  }
  StepRow& row(size_t i) { return table_[i]; }
  std::optional<WorkerTurns> turns(int workers) const {
    Rows rows;
    for (const StepRow& row : table_) rows.add(row, 1);
    return worker_turns(rows, 0, workers);
  }

 private:
  std::vector<StepRow> table_;
};

TEST(WorkerTurns, OneWorkerIsLateInEachTurn) {
  const auto t = Loading(200, [](size_t s) { return s % 4 == 2 ? 30 : 0.5; }).turns(4);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->worker, 2);
  EXPECT_GT(t->share, 0.9);
  EXPECT_GT(t->late_share, 0.9);
  EXPECT_NEAR(t->usual_share, 0.25, 1e-9);
}

TEST(WorkerTurns, EpochsBeginWithTheFirstWorkerAgain) {
  const auto t = Loading(270, [](size_t s) { return s % 27 % 4 == 1 ? 30 : 0.5; }, 27).turns(4);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->worker, 1);
  EXPECT_GT(t->share, 0.9);
}

TEST(WorkerTurns, WithoutTheBeginningOfAnEpochNobodyIsNamed) {
  const auto t = Loading(100, [](size_t s) { return s % 3 == 2 ? 30 : 0.5; }, 1 << 20, 37).turns(3);
  ASSERT_TRUE(t);
  EXPECT_EQ(t->worker, -1);
  EXPECT_GT(t->share, 0.9);
}

TEST(WorkerTurns, SlowSamplesFallOnAll) {
  const auto t = Loading(400, [](size_t s) { return s * 2654435761u % 97 < 12 ? 60 : 0.5; }).turns(4);
  ASSERT_TRUE(t);
  EXPECT_LT(t->share, 0.5);
}

TEST(WorkerTurns, ASlowSampleOfOneWorkerNowAndThenIsNoSlowWorker) {
  const auto t = Loading(400, [](size_t s) { return s % 16 == 5 ? 60 : 0.0; }).turns(4);
  ASSERT_TRUE(t);
  EXPECT_GT(t->share, 0.9);
  EXPECT_LT(t->late_share, 0.3);
}

TEST(WorkerTurns, TooLittleIsNothing) {
  EXPECT_FALSE(Loading(15, [](size_t s) { return s % 4 == 2 ? 30 : 0.5; }).turns(4));
  EXPECT_FALSE(Loading(200, [](size_t) { return 0; }).turns(4));
  EXPECT_FALSE(Loading(200, [](size_t) { return 5; }).turns(1));
}

TEST(WorkerTurns, StepsOfSeveralFetchesOrWithGapsTellNoTurns) {
  Loading loading(200, [](size_t s) { return s % 4 == 2 ? 30 : 0.5; });
  for (size_t i = 0; i < 200; i += 10) loading.row(i).cells[0].fetches = 2;
  EXPECT_FALSE(loading.turns(4));
  Loading gaps(200, [](size_t s) { return s % 4 == 2 ? 30 : 0.5; });
  for (size_t i = 0; i < 200; ++i) gaps.row(i).step = 2 * i;
  EXPECT_FALSE(gaps.turns(4));
}

}  // namespace
}  // namespace stepscope
