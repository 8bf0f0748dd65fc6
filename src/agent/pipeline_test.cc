// Rings written here, read by the pipeline: who counts as a rank, what is lost, restarts, replay.
#include "agent/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "agent/replay.h"
#include "base/file.h"
#include "written_rings.h"

namespace stepscope {
namespace {

TEST_F(PipelineTest, StepsOfAllRanksAndNothingLost) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  pipeline.add(a.tail()), pipeline.add(b.tail());
  for (int i = 0; i < 10; ++i) {
    a.steps(3), b.steps(3);
    pipeline.pump(a.now());
  }
  for (Writer* w : {&a, &b}) w->header().life = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  pipeline.finish(a.now());
  const Snapshot snapshot = pipeline.snapshot();
  EXPECT_EQ(snapshot.steps, 30u);
  EXPECT_EQ(snapshot.run.world_size, 2);
  EXPECT_EQ(snapshot.run.attempts, 1);
  EXPECT_EQ(snapshot.observer.records, 480u);
  EXPECT_EQ(snapshot.observer.lost, 0u);
  EXPECT_EQ(pipeline.first_unclean_death(), nullptr);
  EXPECT_TRUE(of_kind(snapshot, FindingKind::kRankLost).empty());
}

TEST_F(PipelineTest, WithoutEvidenceARingIsNobody) {
  Writer a(root_, 0, 10), b(root_, 1, 11), c(root_, -1, 12);
  b.header().evidence = 0;
  c.header().evidence = blackbox::kEvidenceBackward;
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail()), idc = pipeline.add(c.tail());
  a.steps(5), b.steps(5), c.steps(5);
  pipeline.pump(a.now());
  EXPECT_TRUE(pipeline.counts_as_rank(ida));
  EXPECT_FALSE(pipeline.counts_as_rank(idb));
  EXPECT_FALSE(pipeline.counts_as_rank(idc));
  b.header().evidence = blackbox::kEvidenceOptimizer;  // it comes late; nothing that it did before is lost
  b.steps(5);
  pipeline.pump(a.now());
  EXPECT_TRUE(pipeline.counts_as_rank(idb));
  EXPECT_EQ(pipeline.tail(idb).steps(), 9u);  // the tenth is still open
  pipeline.drop(idb);
  EXPECT_TRUE(pipeline.has(idb));  // a rank cannot be dropped
  pipeline.drop(idc);
  EXPECT_FALSE(pipeline.has(idc));
}

TEST_F(PipelineTest, ARestartedAgentCountsOnWhereTheRingWasOverwritten) {
  Writer a(root_, 0, 10, 0, 64, 1);  // eight steps
  StepMark mark;
  {
    RankTail first = a.tail();
    for (int i = 0; i < 20; ++i) a.steps(5), first.drain(a.now());
    EXPECT_EQ(first.steps(), 99u);
    mark = first.mark();
  }
  a.steps(3);
  RankTail second = a.tail();
  second.resume(mark);
  second.drain(a.now());
  EXPECT_TRUE(second.numbers_certain());
  EXPECT_EQ(second.steps(), 102u);
  const auto steps = second.take_steps();
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().step, 101u);
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_EQ(steps[i].step, steps[i - 1].step + 1);
  const RankLife life = second.life();
  EXPECT_EQ(life.first_step_ns, mark.first_step_ns);
  EXPECT_EQ(life.steps, 102u);

  RankTail again = a.tail();
  again.resume(mark);
  Pipeline pipeline({});
  pipeline.add(std::move(again));
  pipeline.pump(a.now());
  EXPECT_EQ(pipeline.engine().closed_steps(), 102u) << "the run counts on as well";

  a.steps(100);  // all that the mark knew is gone
  RankTail third = a.tail();
  third.resume(mark);
  third.drain(a.now());
  EXPECT_FALSE(third.numbers_certain());
  EXPECT_GE(third.steps(), 99u);

  Writer whole(root_, 1, 11, 0, 4096, 1);
  whole.steps(50);
  RankTail complete = whole.tail();
  mark = {};
  mark.steps = 30;
  complete.resume(mark);
  complete.drain(whole.now());
  EXPECT_EQ(complete.steps(), 49u);  // nothing was overwritten: counted from the first record
}

TEST_F(PipelineTest, ReplayOfRingsSaysWhatTheLivePipelineSaid) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline live({});
  const auto ida = live.add(a.tail()), idb = live.add(b.tail());
  for (int i = 0; i < 20; ++i) {
    a.steps(3), b.steps(3);
    live.pump(a.now());
  }
  live.end_tail(idb, a.now() + 1000, kKilled);
  live.end_tail(ida, a.now() + 2000, kTerminated);
  live.finish(a.now() + 3000);
  ASSERT_TRUE(write_file_atomic(root_ + "/broken.ring", "no ring"));
  const std::string folder = root_ + "/blackbox";
  ASSERT_TRUE(make_dirs(folder));
  for (const std::string& path : {a.path(), b.path(), root_ + "/broken.ring"}) {
    ASSERT_EQ(::rename(path.c_str(), (folder + path.substr(path.rfind('/'))).c_str()), 0);
  }
  const std::string ranks = "{\"pid\": 11, \"exit_signal\": 9, \"end_ns\": " + std::to_string(a.now() + 1000) +
                            "}, {\"pid\": 10, \"exit_signal\": 15, \"end_ns\": " + std::to_string(a.now() + 2000) + "}";
  ASSERT_TRUE(
      write_file_atomic(root_ + "/manifest.json",
                        "{\"name\": \"r\", \"status\": \"crashed\", \"exit_code\": 1, \"ranks\": [" + ranks + "]}"));
  ASSERT_TRUE(has_rings(folder));
  const auto replayed = replay_rings(folder);
  ASSERT_TRUE(replayed) << replayed.error().message;
  const Snapshot said = live.snapshot();
  EXPECT_EQ(replayed->steps, said.steps);
  EXPECT_EQ(replayed->run.name, "r");
  EXPECT_EQ(replayed->run.status, "crashed");
  EXPECT_EQ(replayed->run.exit_code, 1);
  ASSERT_EQ(replayed->findings.size(), said.findings.size());
  for (size_t i = 0; i < said.findings.size(); ++i) {
    EXPECT_EQ(replayed->findings[i].title, said.findings[i].title);
    EXPECT_EQ(replayed->findings[i].detected_step, said.findings[i].detected_step);
  }
  EXPECT_EQ(replayed->observer.unavailable.size(), 1u);
  EXPECT_FALSE(replay_rings(root_));
  EXPECT_FALSE(replay_rings(root_ + "/nowhere"));
}

}  // namespace
}  // namespace stepscope
