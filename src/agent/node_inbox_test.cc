// Two nodes joined in-process: rings of one go through its outbox into the inbox of the other.
#include "agent/node_inbox.h"

#include <gtest/gtest.h>

#include "agent/node_outbox.h"
#include "written_rings.h"

namespace stepscope {
namespace {

constexpr uint64_t kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr uint64_t kAhead = 600 * kSecond;  // the clock of node 1

// Four ranks meet once a step; rank 3 fetches for 40 ms longer than the others.
class NodesTest : public PipelineTest {
 protected:
  void write(uint64_t ahead_ns) {
    for (int r = 0; r < 4; ++r)
      ranks_.push_back(std::make_unique<Writer>(root_, r, 10 + r, 0, 4096, 4, kSecond + (r >= 2 ? ahead_ns : 0)));
  }
  void step(Writer& w, bool slow) {
    w.put(Kind::kFetch, Edge::kBegin, 1, kMs), w.put(Kind::kFetch, Edge::kEnd, 1, (slow ? 45 : 5) * kMs);
    for (Kind kind : {Kind::kForward, Kind::kBackward})
      w.put(kind, Edge::kBegin, 1, kMs), w.put(kind, Edge::kEnd, 1, 10 * kMs);
    w.put(Kind::kWait, Edge::kBegin, 7, kMs, steps_), w.put(Kind::kWait, Edge::kEnd, 7, (slow ? 1 : 41) * kMs, steps_);
    w.put(Kind::kOptimizer, Edge::kBegin, 1, kMs), w.put(Kind::kOptimizer, Edge::kEnd, 1, kMs);
  }
  void steps(int count) {
    for (int i = 0; i < count; ++i, ++steps_)
      for (size_t r = 0; r < 4; ++r) step(*ranks_[r], r == 3);
  }
  void leave() {
    for (auto& w : ranks_) w->header().life = blackbox::kLifeTeardown | blackbox::kLifeClosed;
  }
  uint64_t now() const { return ranks_[0]->now(); }
  uint64_t far_now() const { return ranks_[2]->now(); }

  std::vector<std::unique_ptr<Writer>> ranks_;
  uint64_t steps_ = 0;
};

// What is said of rank 3, in words.
std::vector<std::string> said(const Snapshot& snapshot) {
  std::vector<std::string> texts;
  for (const Finding& f : snapshot.findings)
    if (f.ranks == std::vector{3}) texts.push_back(std::string(name(f.severity)) + " " + f.phase + " " + f.title);
  return texts;
}

TEST_F(NodesTest, AStragglerOfAnotherNodeIsNamedAsIfAllWereHere) {
  write(0);
  Pipeline all({});
  for (auto& w : ranks_) all.add(w->tail());
  for (int i = 0; i < 20; ++i) steps(5), all.pump(now());
  leave();
  all.finish(now());
  const Snapshot expected = all.snapshot();
  ASSERT_FALSE(said(expected).empty());
  EXPECT_NE(said(expected)[0].find("input_wait"), std::string::npos) << said(expected)[0];

  ranks_.clear();
  steps_ = 0;
  write(kAhead);
  Pipeline here({}), there({});
  NodeOutbox outbox(there, "n1", "node1");
  NodeInbox inbox(here);
  here.add(ranks_[0]->tail()), here.add(ranks_[1]->tail());
  there.add(ranks_[2]->tail()), there.add(ranks_[3]->tail());
  const auto send = [&](bool last) {
    const auto frame = outbox.next(far_now(), last);
    if (!frame) return;
    const InboxReply reply = inbox.take(*frame, now() + 2 * kMs);
    ASSERT_EQ(reply.status, 200) << reply.body;
    EXPECT_EQ(inbox.take(*outbox.next(far_now()), now() + 50 * kMs).status, 200);  // sent twice
    outbox.answered(reply.body);
  };
  for (int i = 0; i < 20; ++i) {
    steps(5);
    here.pump(now()), there.pump(far_now());
    send(false);
    here.pump(now());
  }
  leave();
  there.finish(far_now());
  while (!outbox.empty()) send(true);
  send(true);
  here.finish(now() + kSecond);
  const Snapshot snapshot = here.snapshot();
  EXPECT_EQ(snapshot.steps, expected.steps);
  EXPECT_EQ(snapshot.run.world_size, 4);
  EXPECT_EQ(snapshot.observer.records, expected.observer.records);
  EXPECT_EQ(inbox.lost_frames(), 0u);
  EXPECT_EQ(said(snapshot), said(expected));
  EXPECT_TRUE(of_kind(snapshot, FindingKind::kRankLost).empty());
}

TEST_F(NodesTest, ALostFrameIsCountedAndItsStepsAreUnseen) {
  write(kAhead);
  Pipeline here({}), there({});
  NodeOutbox outbox(there, "n1", "node1");
  NodeInbox inbox(here);
  here.add(ranks_[0]->tail()), here.add(ranks_[1]->tail());
  there.add(ranks_[2]->tail()), there.add(ranks_[3]->tail());
  for (int i = 0; i < 10; ++i) {
    steps(5);
    here.pump(now()), there.pump(far_now());
    const auto frame = outbox.next(far_now(), true);
    ASSERT_TRUE(frame);
    if (i == 4)
      outbox.refused();
    else
      outbox.answered(inbox.take(*frame, now()).body);
  }
  here.pump(now());
  EXPECT_EQ(inbox.lost_frames(), 1u);
  EXPECT_EQ(outbox.dropped_steps(), 10u);
  here.finish(now());
  EXPECT_GE(here.snapshot().steps, 49u);
  EXPECT_EQ(inbox.take("nonsense", now()).status, 400);
}

}  // namespace
}  // namespace stepscope
