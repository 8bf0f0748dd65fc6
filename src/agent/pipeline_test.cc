// Rings written here, read by the pipeline: qualification of ranks, deaths and their order, attempts, restarts, replay.
#include "agent/pipeline.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "agent/replay.h"
#include "base/file.h"
#include "blackbox/ring_writer.h"

namespace stepscope {
namespace {

using blackbox::RingWriter;

// One fake rank process.
class Writer {
 public:
  Writer(const std::string& folder, int rank, int pid, int attempt = 0, uint64_t capacity = 4096, int world = 2,
         uint64_t begin_ns = 1'000'000'000)
      : now_(begin_ns) {
    static int number = 0;
    blackbox::RingOptions options;
    options.capacity = options.min_capacity = capacity;
    ring_ = std::move(*RingWriter::create(folder + "/" + std::to_string(++number) + ".ring", options));
    auto& h = ring_->header();
    h.rank = rank, h.local_rank = rank, h.world_size = world, h.node_rank = 0, h.attempt = attempt, h.pid = pid;
    h.pid_start_ticks = static_cast<uint64_t>(pid) * 7;
    h.process_start_ns = h.anchor_monotonic_ns = now_;
    h.evidence = blackbox::kEvidenceOptimizer;
  }
  void put(Kind kind, Edge edge, uint64_t id = 1, uint64_t after_ns = 1'000'000) {
    now_ += after_ns;
    blackbox::Record r;
    r.time_ns = now_, r.kind = pack_kind(kind, edge), r.thread = 1, r.a = id;
    ring_->put(r);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i) {
      for (Kind kind : {Kind::kFetch, Kind::kForward, Kind::kBackward, Kind::kOptimizer})
        put(kind, Edge::kBegin), put(kind, Edge::kEnd);
    }
  }
  // A step that is nothing but compute.
  void busy_step() {
    for (Kind kind : {Kind::kFetch, Kind::kForward, Kind::kBackward, Kind::kOptimizer})
      put(kind, Edge::kBegin, 1, 1'000), put(kind, Edge::kEnd, 1, kind == Kind::kFetch ? 10'000 : 10'000'000);
  }
  void skip(uint64_t ns) { now_ += ns; }
  void name(NameKind kind, uint64_t id, const std::string& text) { ring_->add_name(kind, id, text); }
  blackbox::Header& header() { return ring_->header(); }
  RankTail tail() const { return std::move(*RankTail::open(ring_->path())); }
  std::string path() const { return ring_->path(); }
  uint64_t now() const { return now_; }

 private:
  std::unique_ptr<RingWriter> ring_;
  uint64_t now_;
};

class PipelineTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stepscope-pipeline-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { [[maybe_unused]] const int rc = ::system(("rm -rf '" + root_ + "'").c_str()); }

  std::string root_;
};

std::vector<Finding> of_kind(const Snapshot& snapshot, FindingKind kind) {
  std::vector<Finding> result;
  std::copy_if(snapshot.findings.begin(), snapshot.findings.end(), std::back_inserter(result),
               [&](const Finding& f) { return f.kind == kind; });
  return result;
}

constexpr int kKilled = 9, kTerminated = 15;

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

TEST_F(PipelineTest, TheFirstDeathIsNamedTheOthersFollowedFromIt) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  pipeline.pump(a.now());
  pipeline.end_tail(idb, a.now() + 1000, kKilled);
  pipeline.end_tail(ida, a.now() + 2000, kTerminated);
  pipeline.finish(a.now() + 3000);
  const UncleanDeath* first = pipeline.first_unclean_death();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->rank, 1);
  EXPECT_EQ(first->signal, 9);
  const auto lost = of_kind(pipeline.snapshot(), FindingKind::kRankLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, std::vector<int>{1});
  EXPECT_EQ(lost[0].first_step, 20);
}

TEST_F(PipelineTest, AnExceptionIsOlderThanTheExitThatFollowsIt) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  b.name(NameKind::kException, 5, "ValueError: boom");
  b.put(Kind::kException, Edge::kMark, 5);
  b.header().life = blackbox::kLifeTeardown | blackbox::kLifeException | blackbox::kLifeClosed;
  // Rank 0 died of the closed connection before rank 1 had left.
  pipeline.end_tail(ida, b.now() + 1'000'000, 1 << 8);
  pipeline.end_tail(idb, b.now() + 5'000'000, 1 << 8);
  pipeline.finish(b.now() + 6'000'000);
  ASSERT_TRUE(pipeline.first_unclean_death());
  EXPECT_EQ(pipeline.first_unclean_death()->exception, "ValueError: boom");
}

TEST_F(PipelineTest, AnExceptionOfAThreadIsNoLossWhereTheProcessEndsWell) {
  const uint64_t closed = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  struct Case {
    uint64_t life;
    std::optional<int> status;
    bool lost;
  };
  for (const Case& c :
       {Case{closed, 0, false}, Case{closed, std::nullopt, false}, Case{0, 0, false}, Case{closed, 3 << 8, true},
        Case{closed, kKilled, true}, Case{closed | blackbox::kLifeException, std::nullopt, true}}) {
    Writer a(root_, 0, 10, 0, 4096, 1);
    a.steps(5);
    a.name(NameKind::kException, 5, "ValueError: in a logger");
    a.put(Kind::kException, Edge::kMark, 5);
    a.steps(15);
    a.header().life = c.life;
    Pipeline pipeline({});
    const auto id = pipeline.add(a.tail());
    pipeline.end_tail(id, a.now(), c.status);
    pipeline.finish(a.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(pipeline.first_unclean_death() != nullptr, c.lost) << c.life << " " << c.status.value_or(-1);
    EXPECT_EQ(!of_kind(snapshot, FindingKind::kRankLost).empty(), c.lost) << c.life << " " << c.status.value_or(-1);
    const auto& notes = snapshot.observer.notes;
    EXPECT_EQ(std::count(notes.begin(), notes.end(), "rank 0: a thread of it ended by ValueError: in a logger"),
              c.lost ? 0 : 1);
  }
}

bool says_healthy(const Snapshot& snapshot) {
  return !of_kind(snapshot, FindingKind::kComputeBound).empty() || !of_kind(snapshot, FindingKind::kBalanced).empty();
}

constexpr uint64_t kSecondNs = 1'000'000'000;

// Two ranks that train well; then rank 1 begins something that it does not end, and rank 0 waits for it in backward.
class StandstillTest : public PipelineTest {
 protected:
  void begin(Kind stuck, Kind meanwhile = Kind::kBackward) {
    a_ = std::make_unique<Writer>(root_, 0, 10), b_ = std::make_unique<Writer>(root_, 1, 11);
    pipeline_ = std::make_unique<Pipeline>(EngineOptions{});
    a_id_ = pipeline_->add(a_->tail()), b_id_ = pipeline_->add(b_->tail());
    for (int i = 0; i < 40; ++i) {
      a_->busy_step(), b_->busy_step();
      pipeline_->pump(b_->now());
    }
    a_->put(meanwhile, Edge::kBegin), b_->put(stuck, Edge::kBegin);
    stuck_ns_ = b_->now();
    pipeline_->pump(stuck_ns_);
    EXPECT_TRUE(says_healthy(pipeline_->snapshot()));
  }
  Snapshot after(uint64_t seconds) {
    pipeline_->pump(stuck_ns_ + seconds * kSecondNs);
    return pipeline_->snapshot();
  }

  std::unique_ptr<Writer> a_, b_;
  std::unique_ptr<Pipeline> pipeline_;
  Pipeline::TailId a_id_{}, b_id_{};
  uint64_t stuck_ns_ = 0;
};

TEST_F(StandstillTest, AStepThatDoesNotEndForbidsHealthyAtOnce) {
  begin(Kind::kBackward);
  EXPECT_TRUE(says_healthy(after(3)));
  const Snapshot still = after(20);
  EXPECT_FALSE(says_healthy(still));
  const auto said = of_kind(still, FindingKind::kIncompleteData);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].phase, "backward");
  EXPECT_EQ(said[0].severity, Severity::kWarn);
  EXPECT_NEAR(said[0].cost_seconds, 20, 0.2);
  // It was only long: what follows is judged as before.
  a_->skip(25 * kSecondNs), b_->skip(25 * kSecondNs);
  a_->put(Kind::kBackward, Edge::kEnd), b_->put(Kind::kBackward, Edge::kEnd);
  for (int i = 0; i < 60; ++i) {
    a_->busy_step(), b_->busy_step();
    pipeline_->pump(b_->now());
  }
  EXPECT_TRUE(of_kind(pipeline_->snapshot(), FindingKind::kIncompleteData).empty());
}

TEST_F(StandstillTest, ItStaysForbiddenWhereSomebodyThenStopsTheRun) {
  begin(Kind::kFetch);
  const uint64_t stopped_ns = stuck_ns_ + 60 * kSecondNs;
  pipeline_->pump(stopped_ns);
  pipeline_->interrupted(static_cast<int64_t>(stopped_ns));
  for (const auto id : {a_id_, b_id_}) pipeline_->end_tail(id, stopped_ns + kSecondNs, kTerminated);
  pipeline_->finish(stopped_ns + kSecondNs);
  EXPECT_FALSE(says_healthy(pipeline_->snapshot()));
  EXPECT_EQ(of_kind(pipeline_->snapshot(), FindingKind::kIncompleteData).size(), 1u);
}

TEST_F(StandstillTest, AStopThatTakesLongIsNoStandstill) {
  begin(Kind::kForward);
  pipeline_->interrupted(static_cast<int64_t>(stuck_ns_ + 1));
  for (const auto id : {a_id_, b_id_}) pipeline_->end_tail(id, stuck_ns_ + 30 * kSecondNs, kTerminated);
  pipeline_->finish(stuck_ns_ + 30 * kSecondNs);
  EXPECT_TRUE(says_healthy(pipeline_->snapshot()));
}

TEST_F(StandstillTest, WaitingForARankThatSavesForMinutesIsNone) {
  begin(Kind::kSave);
  EXPECT_TRUE(says_healthy(after(120)));
  EXPECT_FALSE(says_healthy(after(900)));
}

TEST_F(StandstillTest, ALongWayOutIsNone) {
  begin(Kind::kTeardown, Kind::kTeardown);
  EXPECT_TRUE(says_healthy(after(900)));
}

TEST_F(PipelineTest, CleanEndsAreNoDeaths) {
  struct Case {
    uint64_t life;
    std::optional<int> status;
    bool unclean;
  };
  const uint64_t closed = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  for (const Case& c :
       {Case{closed, 0, false}, Case{closed, std::nullopt, false}, Case{closed, 3 << 8, false}, Case{0, 0, false},
        Case{0, std::nullopt, true}, Case{0, 3 << 8, true}, Case{closed, 6, true}, Case{0, 9, true}}) {
    Writer a(root_, 0, 10, 0, 4096, 1);
    a.steps(5);
    a.header().life = c.life;
    Pipeline pipeline({});
    const auto id = pipeline.add(a.tail());
    pipeline.end_tail(id, a.now(), c.status);
    pipeline.finish(a.now());
    EXPECT_EQ(pipeline.first_unclean_death() != nullptr, c.unclean) << c.life << " " << c.status.value_or(-1);
  }
}

TEST_F(PipelineTest, WhoEndsAfterAnInterruptIsNotLost) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  pipeline.pump(a.now());
  pipeline.end_tail(idb, a.now() + 2000, kKilled);
  pipeline.interrupted(static_cast<int64_t>(a.now() + 1000));  // heard of a little later than it happened
  pipeline.end_tail(ida, a.now() + 3000, kKilled);
  pipeline.finish(a.now() + 4000);
  EXPECT_EQ(pipeline.first_unclean_death(), nullptr);
  EXPECT_TRUE(of_kind(pipeline.snapshot(), FindingKind::kRankLost).empty());
}

TEST_F(PipelineTest, AnInterruptHeardOfLateIsKnownByItsException) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  b.name(NameKind::kException, 1, "KeyboardInterrupt");
  b.put(Kind::kException, Edge::kMark, 1);
  pipeline.end_tail(idb, b.now() + 1000, kKilled);
  const uint64_t heard = b.now() + 3'000'000'000;
  pipeline.interrupted(static_cast<int64_t>(heard));
  pipeline.end_tail(ida, heard + 1000, kKilled);
  pipeline.finish(heard + 2000);
  EXPECT_EQ(pipeline.first_unclean_death(), nullptr);
  EXPECT_TRUE(of_kind(pipeline.snapshot(), FindingKind::kRankLost).empty());
}

TEST_F(PipelineTest, WhoFailedBeforeAnInterruptIsLostAlthoughItsProcessLivedOn) {
  Writer a(root_, 0, 10), b(root_, 1, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  a.steps(20), b.steps(20);
  b.name(NameKind::kException, 1, "ValueError: x");
  b.put(Kind::kException, Edge::kMark, 1);
  const uint64_t heard = b.now() + 3'000'000'000;  // it hung in its teardown until somebody lost patience
  pipeline.pump(heard);
  pipeline.interrupted(static_cast<int64_t>(heard));
  pipeline.end_tail(idb, heard + 1000, kKilled);
  pipeline.end_tail(ida, heard + 1000, kKilled);
  pipeline.finish(heard + 2000);
  ASSERT_NE(pipeline.first_unclean_death(), nullptr);
  EXPECT_EQ(pipeline.first_unclean_death()->rank, 1);
  EXPECT_EQ(of_kind(pipeline.snapshot(), FindingKind::kRankLost).size(), 1u);
}

TEST_F(PipelineTest, AttemptsCountOnAndLostRanksStay) {
  Writer a0(root_, 0, 10), b0(root_, 1, 11);
  Pipeline pipeline({});
  std::vector<int> attempts;
  pipeline.on_attempt([&](int attempt) { attempts.push_back(attempt); });
  const auto ida = pipeline.add(a0.tail()), idb = pipeline.add(b0.tail());
  a0.steps(20), b0.steps(20);
  pipeline.pump(a0.now());
  pipeline.end_tail(idb, a0.now() + 1000, kKilled);
  pipeline.end_tail(ida, a0.now() + 2000, kTerminated);
  Writer a1(root_, 0, 20, 1), b1(root_, 1, 21, 1);
  const auto ida1 = pipeline.add(a1.tail());
  pipeline.add(b1.tail());
  a1.steps(10), b1.steps(10);
  pipeline.pump(a1.now());
  EXPECT_EQ(attempts, (std::vector<int>{0, 1}));
  EXPECT_FALSE(pipeline.has(ida));
  EXPECT_TRUE(pipeline.counts_as_rank(ida1));
  EXPECT_EQ(pipeline.take_closed_rings().size(), 2u);
  EXPECT_TRUE(pipeline.take_closed_rings().empty());
  for (Writer* w : {&a1, &b1}) w->header().life = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  pipeline.finish(a1.now());
  const Snapshot snapshot = pipeline.snapshot();
  EXPECT_EQ(snapshot.run.attempts, 2);
  EXPECT_EQ(snapshot.steps, 30u);
  EXPECT_EQ(pipeline.first_unclean_death(), nullptr);
  ASSERT_TRUE(pipeline.first_unclean_death(true));
  const auto lost = of_kind(snapshot, FindingKind::kRankLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_TRUE(lost[0].title.ends_with("(attempt 1)")) << lost[0].title;
  EXPECT_EQ(snapshot.observer.records, 480u);
}

TEST_F(PipelineTest, ASecondLifeOfARankIsAnotherAttemptASecondOwnerIsRefused) {
  Writer a(root_, 0, 10, 0, 4096, 1), twin(root_, 0, 11, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail());
  a.steps(5), twin.steps(5);
  pipeline.pump(a.now());
  const auto refused = pipeline.add(twin.tail());
  pipeline.pump(a.now());
  EXPECT_FALSE(pipeline.counts_as_rank(refused));
  ASSERT_EQ(pipeline.snapshot().observer.notes.size(), 1u);
  pipeline.end_tail(ida, a.now(), 0);
  pipeline.pump(a.now());
  EXPECT_FALSE(pipeline.counts_as_rank(refused)) << "it has not gone on";
  pipeline.end_tail(refused, a.now(), 0);
  Writer second(root_, 0, 12, 0, 4096, 1, a.now());
  second.steps(5);
  const auto ids = pipeline.add(second.tail());
  pipeline.pump(a.now());
  EXPECT_TRUE(pipeline.counts_as_rank(ids));
  EXPECT_EQ(pipeline.attempts(), 2);
}

// Feeds both and pumps as they go.
void train(Pipeline& pipeline, std::vector<Writer*> ranks, int steps) {
  for (int i = 0; i < steps; ++i) {
    for (Writer* rank : ranks) rank->steps(1);
    pipeline.pump(ranks[0]->now());
  }
}

void leave(std::vector<Writer*> ranks) {
  for (Writer* rank : ranks) rank->header().life = blackbox::kLifeTeardown | blackbox::kLifeClosed;
}

TEST_F(PipelineTest, AReplacedRankLeavesTheOthersAliveAndCountsOnWithThem) {
  for (const int status : {kKilled, kTerminated, 0}) {
    Writer a(root_, 0, 10), b(root_, 1, 11);
    Pipeline pipeline({});
    const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
    train(pipeline, {&a, &b}, 20);
    pipeline.end_tail(idb, b.now(), status);
    train(pipeline, {&a}, 10);  // it does not need the other one
    Writer b2(root_, 1, 21, 0, 4096, 2, a.now());
    const auto idb2 = pipeline.add(b2.tail());
    train(pipeline, {&a, &b2}, 30);
    EXPECT_TRUE(pipeline.counts_as_rank(ida));
    EXPECT_TRUE(pipeline.counts_as_rank(idb2));
    EXPECT_EQ(pipeline.take_closed_rings(), std::vector<std::string>{b.path()}) << "rank 0's ring is in use";
    EXPECT_FALSE(pipeline.tail(ida).ended());
    leave({&a, &b2});
    pipeline.end_tail(ida, a.now(), 0), pipeline.end_tail(idb2, b2.now(), 0);
    pipeline.finish(a.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(snapshot.run.attempts, 1);
    EXPECT_EQ(snapshot.steps, 60u);
    // 20 + 30 of 60: within the one step that the seam costs.
    EXPECT_NEAR(snapshot.observer.coverage, 110.0 / 120, 1.5 / 120);
    EXPECT_EQ(pipeline.first_unclean_death(), nullptr) << "the job went on";
    const auto lost = of_kind(snapshot, FindingKind::kRankLost);
    ASSERT_EQ(lost.size(), status == kKilled ? 1u : 0u) << status;
    if (status != kKilled) continue;
    EXPECT_EQ(lost[0].ranks, std::vector<int>{1});
    EXPECT_EQ(lost[0].severity, Severity::kWarn);
    EXPECT_EQ(lost[0].first_step, 20);
    EXPECT_TRUE(lost[0].title.ends_with("another process took its place")) << lost[0].title;
  }
}

TEST_F(PipelineTest, NewNumbersAtTheSameRestartCountAreAnotherAttempt) {
  // Elastic: one rank alone, then two, then one again; torch's count stays 0. Who is first to be seen does not matter.
  for (const bool zero_first : {true, false}) {
    Writer a(root_, 0, 10, 0, 4096, 1);
    Pipeline pipeline({});
    const auto ida = pipeline.add(a.tail());
    train(pipeline, {&a}, 40);
    pipeline.end_tail(ida, a.now(), std::nullopt);  // asked to stop; how it ended cannot be seen
    Writer b0(root_, 0, 20, 0, 4096, 2, a.now()), b1(root_, 1, 21, 0, 4096, 2, a.now());
    Pipeline::TailId ids[2];
    for (const bool zero : {zero_first, !zero_first}) {
      ids[zero ? 0 : 1] = pipeline.add((zero ? b0 : b1).tail());
      train(pipeline, {zero ? &b0 : &b1}, 1);
    }
    train(pipeline, {&b0, &b1}, 49);
    for (const auto id : ids) pipeline.end_tail(id, b0.now(), kTerminated);
    Writer c(root_, 0, 30, 0, 4096, 1, b0.now());
    const auto idc = pipeline.add(c.tail());
    train(pipeline, {&c}, 30);
    leave({&c});
    pipeline.end_tail(idc, c.now(), 0);
    pipeline.finish(c.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(snapshot.run.attempts, 3);
    EXPECT_EQ(snapshot.steps, 120u);
    EXPECT_EQ(snapshot.observer.coverage, 1.0);
    EXPECT_TRUE(of_kind(snapshot, FindingKind::kRankLost).empty());
  }
}

TEST_F(PipelineTest, ALaunchAfterARestartedOneIsAnotherAttemptThoughItCountsLess) {
  Writer a(root_, 0, 10, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail());
  train(pipeline, {&a}, 10);
  pipeline.end_tail(ida, a.now(), 1 << 8);
  Writer b(root_, 0, 20, 1, 4096, 1, a.now());
  const auto idb = pipeline.add(b.tail());
  train(pipeline, {&b}, 10);
  leave({&b});
  pipeline.end_tail(idb, b.now(), 0);
  Writer c(root_, 0, 30, 0, 4096, 1, b.now());  // the next line of a shell script
  const auto idc = pipeline.add(c.tail());
  train(pipeline, {&c}, 10);
  EXPECT_TRUE(pipeline.counts_as_rank(idc));
  pipeline.finish(c.now());
  EXPECT_EQ(pipeline.attempts(), 3);
  EXPECT_EQ(pipeline.snapshot().steps, 30u);
}

TEST_F(PipelineTest, ALeftOverOfAnEarlierAttemptIsHistory) {
  Writer a(root_, 0, 10, 0, 4096, 1), b(root_, 0, 20, 1, 4096, 1, 9'000'000'000);
  Pipeline pipeline({});
  a.steps(5), b.steps(5);
  const auto idb = pipeline.add(b.tail());
  pipeline.pump(b.now());
  const auto ida = pipeline.add(a.tail());  // shows only now
  pipeline.pump(b.now());
  EXPECT_TRUE(pipeline.counts_as_rank(idb));
  EXPECT_FALSE(pipeline.counts_as_rank(ida));
  EXPECT_EQ(pipeline.attempts(), 1);
}

TEST_F(PipelineTest, WhoTrainsBesideIsFollowedWhenItGoesOnAlone) {
  Writer a(root_, 0, 10, 0, 4096, 1), twin(root_, 0, 11, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idtwin = pipeline.add(twin.tail());
  train(pipeline, {&a, &twin}, 400);  // far more than a process that waits may hold
  EXPECT_LE(pipeline.tail(idtwin).waiting_steps().size(), 257u);
  leave({&a});
  pipeline.end_tail(ida, a.now(), 0);
  train(pipeline, {&twin}, 20);
  EXPECT_TRUE(pipeline.counts_as_rank(idtwin));
  pipeline.finish(twin.now());
  EXPECT_EQ(pipeline.attempts(), 2);
  EXPECT_NEAR(pipeline.snapshot().steps, 420u, 2);
}

TEST_F(PipelineTest, RanksThatAreNumberedAnewInTheirProcess) {
  Writer a(root_, 1, 10), b(root_, 0, 11);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  train(pipeline, {&a, &b}, 20);
  pipeline.end_tail(idb, b.now(), 0);
  a.header().rank = 0, a.header().world_size = 3;  // the survivor; two join
  Writer c(root_, 1, 21, 0, 4096, 3, a.now()), d(root_, 2, 22, 0, 4096, 3, a.now());
  pipeline.add(c.tail()), pipeline.add(d.tail());
  train(pipeline, {&a, &c, &d}, 30);
  EXPECT_TRUE(pipeline.counts_as_rank(ida));
  EXPECT_FALSE(pipeline.tail(ida).ended());
  leave({&a, &c, &d});
  pipeline.finish(a.now());
  const Snapshot snapshot = pipeline.snapshot();
  EXPECT_EQ(snapshot.run.attempts, 2);
  EXPECT_NEAR(snapshot.steps, 50u, 1);
  EXPECT_EQ(snapshot.run.world_size, 3);
  EXPECT_TRUE(of_kind(snapshot, FindingKind::kRankLost).empty());
}

TEST_F(PipelineTest, ARankThatLearnsItsNumberLateIsNoOtherAttempt) {
  // mp.spawn without variables: an optimizer was seen before the process group was made.
  Writer a(root_, 0, 10, 0, 4096, 1), b(root_, 0, 11, 0, 4096, 1);
  Pipeline pipeline({});
  const auto ida = pipeline.add(a.tail()), idb = pipeline.add(b.tail());
  pipeline.pump(a.now());
  b.header().rank = 1;
  for (Writer* w : {&a, &b}) w->header().world_size = 2;
  pipeline.pump(a.now());
  train(pipeline, {&a, &b}, 20);
  EXPECT_TRUE(pipeline.counts_as_rank(ida));
  EXPECT_TRUE(pipeline.counts_as_rank(idb));
  leave({&a, &b});
  pipeline.finish(a.now());
  EXPECT_EQ(pipeline.attempts(), 1);
  EXPECT_EQ(pipeline.snapshot().steps, 20u);
  EXPECT_TRUE(pipeline.snapshot().observer.notes.empty());
}

TEST_F(PipelineTest, ARankThatJoinsOthersInTheirStepsCountsFromThere) {
  for (const bool in_step : {true, false}) {  // without a process group their steps have nothing to do with each other
    Writer a(root_, 0, 10);
    Pipeline pipeline({});
    pipeline.add(a.tail());
    if (in_step) a.put(Kind::kInitGroup, Edge::kBegin), a.put(Kind::kInitGroup, Edge::kEnd);
    train(pipeline, {&a}, 100);
    Writer b(root_, 1, 11, 0, 4096, 2, a.now());
    pipeline.add(b.tail());
    train(pipeline, {&a, &b}, 50);
    leave({&a, &b});
    pipeline.finish(a.now());
    const Snapshot snapshot = pipeline.snapshot();
    EXPECT_EQ(snapshot.steps, 150u);
    EXPECT_NEAR(snapshot.observer.coverage, 200.0 / 300, 1.5 / 300);
  }
}

TEST_F(PipelineTest, AScribbledHeaderIsNoOtherRank) {
  Writer a(root_, 0, 10);
  Pipeline pipeline({});
  const auto id = pipeline.add(a.tail());
  train(pipeline, {&a}, 10);
  a.header().rank = 7, a.header().world_size = 70, a.header().pid = 99;
  train(pipeline, {&a}, 10);
  EXPECT_TRUE(pipeline.counts_as_rank(id));
  EXPECT_EQ(pipeline.tail(id).identity().rank, 0);
  EXPECT_EQ(pipeline.attempts(), 1);
}

TEST_F(PipelineTest, ReplayTellsAReplacedRankToo) {
  const std::string folder = root_ + "/blackbox";
  ASSERT_TRUE(make_dirs(folder));
  Writer a(folder, 0, 10), b(folder, 1, 11);
  a.steps(20), b.steps(20);
  Writer b2(folder, 1, 21, 0, 4096, 2, b.now());
  a.steps(30), b2.steps(30);
  leave({&a, &b2});
  const auto replayed = replay_rings(folder);
  ASSERT_TRUE(replayed) << replayed.error().message;
  EXPECT_EQ(replayed->steps, 50u);
  EXPECT_EQ(replayed->run.attempts, 1);
  const auto lost = of_kind(*replayed, FindingKind::kRankLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].ranks, std::vector<int>{1});
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
