#include "diagnose/input_queue.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

const CodeLine kNext{104, "main", "/x/train.py"}, kGet{171, "Queue.get", "/usr/lib/python3.11/queue.py"},
    kWait{327, "Condition.wait", "/usr/lib/python3.11/threading.py"};

void add(std::vector<CodeSample>& list, int count, Category phase, const std::vector<CodeLine>& frames) {
  CodeSample s;
  s.phase = phase, s.stay_ms = 50;
  s.take_frames(frames);
  list.insert(list.end(), static_cast<size_t>(count), s);
}

// Rank 1 is met in the get of a queue 30 times of 40, and waits for nothing else; rank 0 never.
struct InputQueue : ::testing::Test {
  InputQueue() {
    add(samples[1], 30, Category::kUnattributed, {kWait, kGet, kNext});
    add(samples[1], 10, Category::kForward, {{12, "step", "/x/train.py"}});
    add(samples[0], 40, Category::kForward, {{12, "step", "/x/train.py"}});
    for (int rank : {0, 1}) lives[rank].rank = rank;
    f = Finding::of(FindingKind::kStraggler);
    f.severity = Severity::kCrit;
    f.ranks = {1}, f.victims = {0};
    f.phase = "unattributed";
    f.title = "Rank 1 is late outside of the known phases; rank 0 waits 274 ms per step";
  }
  bool named() {
    name_input_queue(f, samples, lives);
    return f.kind == FindingKind::kInputStraggler || f.kind == FindingKind::kInputBound;
  }
  CodeSamples samples;
  std::map<int, RankLife> lives;
  Finding f;
};

TEST_F(InputQueue, ARankThatWaitsInIts) {
  EXPECT_TRUE(named());
  EXPECT_EQ(f.title, "Rank 1 is late waiting for its input, in a queue; rank 0 waits 274 ms per step");
  add_line(f, samples);
  EXPECT_NE(f.title.find("train.py:104 main (python3.11/queue.py:171 Queue.get)"), f.title.npos) << f.title;
}

TEST_F(InputQueue, WhereALoaderFeedsTheTrainingAQueueIsForSomethingElse) {
  lives[1].training_loaders = {7};
  EXPECT_FALSE(named());
}

TEST_F(InputQueue, AnotherCallIsNoQueue) {
  samples[1].clear();
  add(samples[1], 30, Category::kUnattributed,
      {{9, "get", "/usr/lib/python3.11/site-packages/redis/client.py"}, kNext});
  EXPECT_FALSE(named());
}

TEST_F(InputQueue, APeerThatIsThereAsOftenDoesNotDiffer) {
  add(samples[0], 40, Category::kUnattributed, {kWait, kGet, kNext});
  EXPECT_FALSE(named());
}

TEST_F(InputQueue, MostOfTheTimeWithoutANameMustBeThere) {
  add(samples[1], 31, Category::kUnattributed, {{40, "save", "/x/train.py"}});
  EXPECT_FALSE(named());
}

TEST_F(InputQueue, AllRanksThatWaitAreInputBound) {
  f = Finding::of(FindingKind::kWaitHeavy);
  f.phase = "unattributed";
  f.cost_share = 0.4;
  EXPECT_FALSE(named()) << "rank 0 does not";
  samples[0] = samples[1];
  EXPECT_TRUE(named());
  EXPECT_EQ(f.title, "40 % of the time is waiting for input, in a queue");
}

}  // namespace
}  // namespace stepscope
