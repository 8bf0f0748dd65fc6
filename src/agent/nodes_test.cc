// Two nodes without a wire: rings and pipeline of each, the outbox of one, the inbox of the other. What is lost,
// doubled, late or comes from a clock that is far apart is done to the frames between them.
#include <gtest/gtest.h>

#include "agent/hang_watch.h"
#include "agent/node_inbox.h"
#include "agent/node_outbox.h"
#include "agent/remote_rank.h"
#include "written_rings.h"

namespace stepscope {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class Nodes : public PipelineTest {
 protected:
  static constexpr int kRanks = 4;  // 0 and 1 on node 0, 2 and 3 on node 1

  void SetUp() override {
    PipelineTest::SetUp();
    begin(0);
  }
  // `ahead_ns`: how much node 1's clock is ahead of node 0's.
  void begin(int64_t ahead_ns) {
    outbox_.reset(), inbox_.reset();
    ahead_ns_ = ahead_ns;
    for (int r = 0; r < kRanks; ++r) {
      const uint64_t begin_ns = 100 * kSecond + (r >= 2 ? static_cast<uint64_t>(ahead_ns) : 0);
      ranks_[r] = std::make_unique<Writer>(root_, r, 100 + r % 2, 0, 16384, kRanks, begin_ns);
      auto& header = ranks_[r]->header();
      header.local_rank = r % 2, header.node_rank = r / 2;
      std::snprintf(header.hostname, sizeof header.hostname, "node%d", r / 2);
      ranks_[r]->name(NameKind::kGroup, 77, "default_pg|0,1,2,3");
    }
    zero_ = std::make_unique<Pipeline>(EngineOptions{}), one_ = std::make_unique<Pipeline>(EngineOptions{});
    outbox_ = std::make_unique<NodeOutbox>(NodeOutbox::Options{.run = "job", .hostname = "node1"}, *one_);
    for (int r = 0; r < 2; ++r) zero_->add(ranks_[r]->tail()), ids_[r] = one_->add(ranks_[r + 2]->tail());
    inbox_ = std::make_unique<NodeInbox>("job", *zero_);
  }

  // One step of all ranks: the collective in backward ends when the last has come.
  void step(int late = -1, uint64_t late_ms = 0) {
    constexpr uint64_t kMs = 1'000'000;
    const uint64_t longest_ms = 30 + (late >= 0 ? late_ms : 0);
    for (int r = 0; r < kRanks; ++r) {
      Writer& w = *ranks_[r];
      const uint64_t forward_ms = 30 + (r == late ? late_ms : 0);
      w.put(Kind::kFetch, Edge::kBegin, 1, 1000), w.put(Kind::kFetch, Edge::kEnd, 1, kMs);
      w.put(Kind::kForward, Edge::kBegin, 1, 1000), w.put(Kind::kForward, Edge::kEnd, 1, forward_ms * kMs);
      w.put(Kind::kBackward, Edge::kBegin, 1, 1000);
      w.put(Kind::kBackward, Edge::kEnd, 1, 20 * kMs);
      w.put(Kind::kWait, Edge::kBegin, 77, 1000),
          w.put(Kind::kWait, Edge::kEnd, 77, (longest_ms - forward_ms + 3) * kMs);
      w.put(Kind::kOptimizer, Edge::kBegin, 1, 1000), w.put(Kind::kOptimizer, Edge::kEnd, 1, 2 * kMs);
    }
  }
  uint64_t now() const { return ranks_[0]->now(); }
  uint64_t there() const { return now() + static_cast<uint64_t>(ahead_ns_); }

  void pump_one() {
    one_->pump(there());
    outbox_->look(there());
  }
  // All frames that wait, over a wire that takes some time each way.
  void carry(uint64_t delay_ns = 2'000'000) {
    while (auto frame = outbox_->next(there() - 2 * delay_ns)) {
      const auto answer = inbox_->take(*frame, now() - delay_ns);
      ASSERT_EQ(answer.outcome, NodeInbox::Outcome::kTaken) << answer.body;
      outbox_->answered(answer.body, there());
    }
  }
  void pump() {
    pump_one();
    carry();
    zero_->pump(now());
  }
  void train(int steps, int late = -1, uint64_t late_ms = 0) {
    for (int i = 0; i < steps; ++i) {
      step(late, late_ms);
      if (i % 10 == 9) pump();
    }
  }
  void end_all() {
    for (int r = 0; r < kRanks; ++r) {
      ranks_[r]->put(Kind::kProcess, Edge::kMark, static_cast<uint64_t>(ProcessEvent::kExit));
      ranks_[r]->header().life |= blackbox::kLifeClosed;
    }
    for (const TailId id : ids_)
      if (one_->has(id)) one_->end_tail(id, there(), 0);
    one_->finish(there());
    outbox_->close(there());
  }
  // The others are in an operation that this rank has not come to.
  void all_wait_for(int late) {
    for (int r = 0; r < kRanks; ++r) {
      ranks_[r]->name(NameKind::kGroup, 78, "other_pg|0,1,2,3");
      if (r == late)
        ranks_[r]->put(Kind::kFetch, Edge::kBegin);
      else
        ranks_[r]->put(Kind::kBackward, Edge::kBegin), ranks_[r]->put(Kind::kWait, Edge::kBegin, 78);
    }
  }
  Snapshot finish(bool carried = true) {
    end_all();
    if (carried) carry();
    return judge();
  }
  Snapshot judge() {
    for (const TailId id : zero_->tails())
      if (zero_->ring(id)) zero_->end_tail(id, now(), 0);
    zero_->finish(now());
    return snapshot();
  }
  Snapshot snapshot(uint64_t after_ns = 0) {
    RunContext context = zero_->context();
    inbox_->fill(context, now() + after_ns);
    return assemble(zero_->engine(), context);
  }
  // The same ranks, all on one node.
  Snapshot together() {
    Pipeline all{EngineOptions{}};
    std::vector<TailId> ids;
    for (const auto& writer : ranks_) ids.push_back(all.add(writer->tail()));
    all.pump(now());
    for (const TailId id : ids) all.end_tail(id, now(), 0);
    all.finish(now());
    return all.snapshot();
  }

  static std::set<std::string> verdict(const Snapshot& s) {
    std::set<std::string> out;
    for (const Finding& f : s.findings) {
      if (f.severity == Severity::kInfo) continue;
      std::string key = f.kind.str() + " " + f.phase + " " + f.cause.str();
      for (const int r : f.ranks) key += " " + std::to_string(r);
      out.insert(key);
    }
    return out;
  }
  static std::string notes(const Snapshot& s) {
    std::string out;
    for (const std::string& note : s.observer.notes) out += note + "\n";
    return out;
  }

  int64_t ahead_ns_ = 0;
  std::unique_ptr<Writer> ranks_[kRanks];
  TailId ids_[2] = {};
  std::unique_ptr<Pipeline> zero_, one_;
  std::unique_ptr<NodeOutbox> outbox_;
  std::unique_ptr<NodeInbox> inbox_;
};

TEST_F(Nodes, AStragglerOnTheOtherNodeIsNamedAsOnOneNode) {
  train(20);
  train(100, 3, 25);
  const Snapshot over = finish(), one = together();
  EXPECT_EQ(verdict(over), verdict(one));
  EXPECT_FALSE(verdict(one).empty());
  EXPECT_EQ(over.steps, one.steps);
  EXPECT_EQ(over.run.nodes, 2);
  EXPECT_EQ(over.ranks.size(), 4u);
  ASSERT_GE(over.primary, 0);
  EXPECT_EQ(over.findings[static_cast<size_t>(over.primary)].ranks, std::vector<int>{3});
  EXPECT_EQ(notes(over).find("node "), std::string::npos) << notes(over);
  for (const RankStat& rank : over.ranks) EXPECT_EQ(rank.state, RankState::kFinished) << rank.rank;
}

TEST_F(Nodes, FramesThatComeTwiceCountOnce) {
  for (int i = 0; i < 6; ++i) {
    for (int k = 0; k < 10; ++k) step();
    pump_one();
    while (auto frame = outbox_->next(there())) {
      const auto answer = inbox_->take(*frame, now());
      EXPECT_EQ(inbox_->take(*frame, now()).outcome, NodeInbox::Outcome::kTaken);
      outbox_->answered(answer.body, there());
    }
    zero_->pump(now());
  }
  const Snapshot over = finish(), one = together();
  EXPECT_EQ(over.steps, one.steps);
  EXPECT_GE(inbox_->states().at(0).duplicates, 3u);
  EXPECT_EQ(inbox_->states().at(0).missing, 0u);
  for (const RankStat& rank : over.ranks) EXPECT_EQ(rank.steps, one.ranks[static_cast<size_t>(rank.rank)].steps);
}

TEST_F(Nodes, FramesThatPassEachOtherAreAllTaken) {
  for (int i = 0; i < 6; ++i) {
    std::vector<std::string> frames;
    for (int part = 0; part < 2; ++part) {
      for (int k = 0; k < 20; ++k) step();
      pump_one();
      while (auto frame = outbox_->next(there())) {
        frames.push_back(*frame);
        const auto number = decode_frame(*frame)->sequence;
        outbox_->answered(encode(NodeAnswer{.aggregator = 1, .taken = number}), there());
      }
    }
    if (i > 0) std::reverse(frames.begin(), frames.end());
    for (const std::string& frame : frames) EXPECT_EQ(inbox_->take(frame, now()).outcome, NodeInbox::Outcome::kTaken);
    zero_->pump(now());
  }
  const Snapshot over = finish(), one = together();
  EXPECT_EQ(inbox_->states().at(0).missing, 0u);
  for (const RankStat& rank : over.ranks) EXPECT_EQ(rank.steps, one.ranks[static_cast<size_t>(rank.rank)].steps);
}

TEST_F(Nodes, AFrameThatNeverComesIsCountedAndTheRestGoesOn) {
  train(40);
  for (int i = 0; i < 20; ++i) step();
  pump_one();
  while (auto frame = outbox_->next(there()))
    outbox_->answered(encode(NodeAnswer{.aggregator = 1, .taken = decode_frame(*frame)->sequence}), there());
  train(60, 3, 25);
  const Snapshot over = finish();
  EXPECT_GE(inbox_->states().at(0).missing, 1u);
  EXPECT_NE(notes(over).find("never came"), std::string::npos) << notes(over);
  EXPECT_LT(over.observer.coverage, 1.0);
  ASSERT_GE(over.primary, 0);
  EXPECT_EQ(over.findings[static_cast<size_t>(over.primary)].ranks, std::vector<int>{3});
}

TEST_F(Nodes, ANodeThatJoinsLateIsTakenInWithAllItsSteps) {
  for (int i = 0; i < 30; ++i) step(3, 25), pump_one();
  zero_->pump(now());
  for (const Finding& f : snapshot().findings)
    EXPECT_TRUE(f.ranks.empty()) << f.title;  // half of the ranks: nobody is blamed
  carry();
  train(60, 3, 25);
  const Snapshot over = finish(), one = together();
  EXPECT_EQ(verdict(over), verdict(one));
  EXPECT_EQ(over.ranks[3].steps, one.ranks[3].steps);
}

TEST_F(Nodes, ANodeThatIsSilentForAMinuteIsSaidAndComesBack) {
  train(60);
  for (int i = 0; i < 1000; ++i) {  // more than a minute
    step();
    if (i % 10 == 9) pump_one(), zero_->pump(now());
  }
  const Snapshot silent = snapshot();
  EXPECT_NE(notes(silent).find("node node1 has not been heard for"), std::string::npos) << notes(silent);
  EXPECT_NE(notes(silent).find("its 2 ranks are unseen since step"), std::string::npos) << notes(silent);
  EXPECT_TRUE(of_kind(silent, FindingKind::kRankLost).empty());
  for (const Finding& f : silent.findings) EXPECT_TRUE(f.ranks.empty()) << f.title;
  train(400, 3, 25);
  EXPECT_EQ(notes(snapshot()).find("has not been heard"), std::string::npos);
  const Snapshot over = finish();
  EXPECT_EQ(over.ranks[3].steps, together().ranks[3].steps);
  EXPECT_EQ(outbox_->totals().dropped_frames, 0u);
  ASSERT_GE(over.primary, 0);
  EXPECT_EQ(over.findings[static_cast<size_t>(over.primary)].ranks, std::vector<int>{3});
}

TEST_F(Nodes, ANodeThatNeverComesBackIsNoLostRank) {
  train(60);
  for (int i = 0; i < 100; ++i) step();
  zero_->pump(now());
  const Snapshot over = judge();
  EXPECT_TRUE(of_kind(over, FindingKind::kRankLost).empty());
  EXPECT_NE(notes(over).find("has not been heard"), std::string::npos) << notes(over);
  EXPECT_EQ(over.ranks[3].state, RankState::kRunning);
}

TEST_F(Nodes, ARankThatDiesOnTheOtherNodeIsLost) {
  train(60);
  one_->end_tail(ids_[1], there(), kKilled);
  ranks_[0]->skip(2 * kSecond);
  pump();
  const Snapshot over = judge();
  ASSERT_EQ(of_kind(over, FindingKind::kRankLost).size(), 1u);
  EXPECT_EQ(of_kind(over, FindingKind::kRankLost)[0].ranks, std::vector<int>{3});
  ASSERT_NE(zero_->first_unclean_death(), nullptr);
  EXPECT_EQ(zero_->first_unclean_death()->signal, kKilled);
}

// Everybody waits in backward for rank 3, which stays in forward on the other node.
TEST_F(Nodes, ARankThatStandsStillOnTheOtherNodeIsNamedWithItsStanding) {
  train(60);
  HangWatch::Options options{.limits = Thresholds{}, .timeout_s = 0, .stacks = false};
  HangWatch zero(options), one(options);
  all_wait_for(3);
  for (int i = 0; i < 100; ++i) {
    for (const auto& rank : ranks_) rank->skip(kSecond / 5);
    one_->pump(there());
    one.look(*one_, there());
    outbox_->set_standing(one.here());
    outbox_->look(there());
    carry();
    zero_->pump(now());
    zero.look(*zero_, now(), {}, [&] { return inbox_->standing(now()); });
  }
  ASSERT_TRUE(zero.verdict());
  EXPECT_EQ(zero.verdict()->kind, FindingKind::kHang);
  EXPECT_EQ(zero.verdict()->ranks, std::vector<int>{3}) << zero.verdict()->title;
  EXPECT_EQ(zero.verdict()->victims, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(zero.verdict()->cause, Cause::kRankSilent) << zero.verdict()->title;
  // It goes on over there, and that is seen here.
  ranks_[3]->put(Kind::kFetch, Edge::kEnd, 1, 1000);
  for (const auto& rank : ranks_) rank->skip(kSecond);
  train(30);
  one.look(*one_, there());
  zero.look(*zero_, now(), {}, [&] { return inbox_->standing(now()); });
  EXPECT_FALSE(zero.verdict());
}

// Its node sees no reason to look at it: it works, and the others are patient.
TEST_F(Nodes, ARankThatWorksOnTheOtherNodeIsWaitedForInPatience) {
  train(60);
  HangWatch zero({.limits = Thresholds{}, .timeout_s = 0, .stacks = false});
  all_wait_for(3);
  for (int i = 0; i < 100; ++i) {
    for (const auto& rank : ranks_) rank->skip(kSecond / 5);
    pump();
    zero.look(*zero_, now(), {}, [&] { return inbox_->standing(now()); });
  }
  EXPECT_FALSE(zero.verdict()) << zero.verdict()->title;
}

TEST_F(Nodes, AgentsOfOneHostAreKnownByItsName) {
  EXPECT_FALSE(inbox_->hears_from("node1"));
  train(20);
  EXPECT_TRUE(inbox_->hears_from("node1"));
  EXPECT_FALSE(inbox_->hears_from("node0"));
}

TEST_F(Nodes, WhatTheOtherNodeFindsAboutItsHostIsSaid) {
  train(60);
  Finding finding = Finding::of(FindingKind::kCpuContention);
  finding.severity = Severity::kWarn, finding.ranks = {2, 3}, finding.title = "the cores of node1 are short";
  outbox_->set_host({.findings = {finding}, .uses = {{.rank = 3, .cpu_share = 0.5, .rss_peak_bytes = 5e9}}});
  end_all();
  EXPECT_TRUE(inbox_->more_to_come(now()));
  carry();
  EXPECT_FALSE(inbox_->more_to_come(now()));
  inbox_->judge(zero_->engine());
  const Snapshot over = judge();
  ASSERT_EQ(of_kind(over, FindingKind::kCpuContention).size(), 1u);
  EXPECT_EQ(of_kind(over, FindingKind::kCpuContention)[0].ranks, (std::vector<int>{2, 3}));
  EXPECT_EQ(over.ranks[3].rss_peak_bytes, 5e9);
}

TEST_F(Nodes, LinesOfCodeAreAskedForAndTold) {
  train(20);
  const auto far = [&](int rank) {
    for (const TailId id : zero_->tails())
      if (zero_->tail(id).identity().rank == rank) return id;
    return TailId{};
  };
  EXPECT_TRUE(outbox_->lines_wanted().empty());
  zero_->remote(far(3))->want_lines(true);
  train(20);
  EXPECT_EQ(outbox_->lines_wanted(), std::set<TailId>{ids_[1]});
  one_->note_code(ids_[1], {.phase = Category::kForward, .program = {{12, "load", "train.py"}}});
  train(20);
  ASSERT_EQ(zero_->engine().code().at(3).size(), 1u);
  EXPECT_EQ(zero_->engine().code().at(3)[0].program.at(0).line, 12);
  zero_->remote(far(3))->want_lines(false);
  train(20);
  EXPECT_TRUE(outbox_->lines_wanted().empty());
}

TEST_F(Nodes, AnAggregatorThatIsRestartedSaysWhatWillNotComeAgain) {
  train(100);
  inbox_.reset();
  zero_ = std::make_unique<Pipeline>(EngineOptions{});
  for (int r = 0; r < 2; ++r) zero_->add(ranks_[r]->tail());
  inbox_ = std::make_unique<NodeInbox>("job", *zero_);
  train(100, 3, 25);
  const Snapshot over = finish();
  EXPECT_NE(notes(over).find("went to an aggregator before this one"), std::string::npos) << notes(over);
  EXPECT_EQ(over.ranks.size(), 4u);
  EXPECT_EQ(over.steps, together().steps);
  ASSERT_GE(over.primary, 0);
  EXPECT_EQ(over.findings[static_cast<size_t>(over.primary)].ranks, std::vector<int>{3});
}

TEST_F(Nodes, ClocksThatAreFarApartChangeNoVerdict) {
  std::set<std::string> before;
  for (const int64_t ahead_s : {0, 600, -90, 600'000}) {
    SCOPED_TRACE(ahead_s);
    begin(ahead_s * static_cast<int64_t>(kSecond));
    train(20);
    train(100, 3, 25);
    const Snapshot over = finish();
    EXPECT_TRUE(before.empty() || verdict(over) == before);
    before = verdict(over);
    EXPECT_FALSE(before.empty());
    EXPECT_NEAR(static_cast<double>(inbox_->states().at(0).ahead_ns), static_cast<double>(-ahead_ns_), 25e6);
  }
}

TEST_F(Nodes, AClockThatJumpsChangesNoVerdict) {
  train(60);
  ranks_[2]->skip(600 * kSecond), ranks_[3]->skip(600 * kSecond);
  ahead_ns_ += 600 * static_cast<int64_t>(kSecond);
  train(120, 3, 25);
  const Snapshot over = finish();
  ASSERT_GE(over.primary, 0);
  EXPECT_NEAR(static_cast<double>(inbox_->states().at(0).ahead_ns), static_cast<double>(-ahead_ns_), 25e6);
}

TEST_F(Nodes, WhatDoesNotFitIsDroppedCountedAndSaid) {
  outbox_.reset();
  outbox_ =
      std::make_unique<NodeOutbox>(NodeOutbox::Options{.run = "job", .hostname = "node1", .most_kept = 4096}, *one_);
  for (int i = 0; i < 600; ++i) {
    step();
    if (i % 10 == 9) pump_one(), zero_->pump(now());
  }
  EXPECT_GT(outbox_->totals().dropped_frames, 5u);
  train(60);
  const Snapshot over = finish();
  EXPECT_NE(notes(over).find("dropped there before they could be sent"), std::string::npos) << notes(over);
  EXPECT_EQ(over.ranks.size(), 4u);
  EXPECT_EQ(over.steps, together().steps);
}

TEST_F(Nodes, ARestartOverNodesIsOneNewAttempt) {
  train(40);
  for (int r = 0; r < kRanks; ++r) ranks_[r]->header().life |= blackbox::kLifeClosed;
  for (const TailId id : ids_) one_->end_tail(id, there(), kTerminated);
  for (const TailId id : zero_->tails())
    if (zero_->ring(id)) zero_->end_tail(id, now(), kTerminated);
  const uint64_t later_ns = now() + 3 * kSecond;
  for (int r = 0; r < kRanks; ++r) {
    ranks_[r] = std::make_unique<Writer>(root_, r, 200 + r % 2, 1, 16384, kRanks, later_ns);
    ranks_[r]->header().node_rank = r / 2;
    std::snprintf(ranks_[r]->header().hostname, sizeof ranks_[r]->header().hostname, "node%d", r / 2);
    ranks_[r]->name(NameKind::kGroup, 77, "default_pg|0,1,2,3");
  }
  for (int r = 0; r < 2; ++r) zero_->add(ranks_[r]->tail()), ids_[r] = one_->add(ranks_[r + 2]->tail());
  train(60, 3, 25);
  const Snapshot over = finish();
  EXPECT_EQ(over.run.attempts, 2);
  EXPECT_GE(over.steps, 99u);
  ASSERT_GE(over.primary, 0);
  EXPECT_EQ(over.findings[static_cast<size_t>(over.primary)].ranks, std::vector<int>{3});
}

TEST_F(Nodes, AJobOnOneNodeMakesNoFrames) {
  Pipeline all{EngineOptions{}};
  NodeOutbox outbox({.run = "job", .hostname = "node0"}, all);
  for (const auto& writer : ranks_) {
    all.add(writer->tail());
    all.pump(now());
    outbox.look(now());
  }
  EXPECT_FALSE(outbox.active());
  EXPECT_FALSE(outbox.next(now()));
}

TEST_F(Nodes, AnotherRunAndAnotherVersionAreRefused) {
  train(10);
  pump_one();
  std::string frame = encode(NodeFrame{.run = "other", .node = 1, .sequence = 1});
  EXPECT_EQ(inbox_->take(frame, now()).outcome, NodeInbox::Outcome::kOtherRun);
  frame[4] = 77;
  EXPECT_EQ(inbox_->take(frame, now()).outcome, NodeInbox::Outcome::kOtherVersion);
  EXPECT_EQ(inbox_->take("hello", now()).outcome, NodeInbox::Outcome::kNoFrame);
}

}  // namespace
}  // namespace stepscope
