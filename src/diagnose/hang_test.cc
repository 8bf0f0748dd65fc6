#include "diagnose/hang.h"

#include <gtest/gtest.h>

#include "align/device_ops.h"
#include "diagnose/stack_text.h"

namespace stepscope {
namespace {

constexpr uint64_t kWorld = 77, kPair = 78;

// A job of `ranks` that all stand in step 10, silent for longer than they have patience; each test says who is where.
struct Job : JobStanding {
  explicit Job(int count) {
    world = count;
    run_s = 60;
    std::vector<int> all;
    for (int i = 0; i < count; ++i) {
      RankStanding r;
      r.rank = i;
      r.steps = 10;
      r.silent_s = 6;
      r.patience_s = 5;
      r.state = 'S';
      ranks.push_back(r);
      all.push_back(i);
    }
    groups[kWorld] = {"the default group", all};
  }

  RankStanding& operator[](int rank) { return ranks[static_cast<size_t>(rank)]; }

  void issued(int rank, uint64_t count, CollectiveOp op = CollectiveOp::kAllReduce, uint64_t bytes = 4096,
              uint64_t group = kWorld) {
    PlaceInGroup& place = (*this)[rank].groups[group];
    RankStanding& r = (*this)[rank];
    for (uint64_t i = place.issued; i < count; ++i) {
      IssuedOp next{.sequence = i, .bytes = bytes, .op = static_cast<uint8_t>(op), .time_ns = ++now_ns};
      next.what = (bytes << 8 | next.op) * 128 + group;
      next.after = newest[rank];
      if (next.after) r.turns.add(next.after, next.what, now_ns);
      newest[rank] = next.what;
      place.newest.push_back(next);
    }
    place.issued = count;
  }
  int64_t now_ns = 0;
  std::map<int, uint64_t> newest;  // of each rank, what it was

  // In its newest operation of the group.
  void waits(int rank, uint64_t group = kWorld) {
    const PlaceInGroup& place = (*this)[rank].groups.at(group);
    (*this)[rank].awaits = AwaitedOp{.group = group, .sequence = place.issued - 1};
  }

  void stands_at(int rank, int line, const std::string& function, bool gil = false, bool python = true) {
    (*this)[rank].stack =
        ThreadStack{.frames = {{line, function, "/home/u/train.py"}, {9, "<module>", "/home/u/train.py"}},
                    .holds_gil = gil,
                    .in_interpreter = python};
  }

  Finding verdict() {
    auto found = judge_hang(*this);
    EXPECT_TRUE(found.has_value());
    return found.value_or(Finding{});
  }
};

// Rank 1 does not come to the fourth operation; all others are in it.
Job one_is_missing(int count) {
  Job job(count);
  for (int rank = 0; rank < count; ++rank) {
    job.issued(rank, rank == 1 ? 3 : 4);
    if (rank != 1) job.waits(rank);
  }
  return job;
}

TEST(Hang, NamesTheRankThatDoesNotComeAndItsLine) {
  Job job = one_is_missing(4);
  job.stands_at(1, 61, "after");
  job[1].wait_channel = "hrtimer_nanosleep";
  const Finding f = job.verdict();
  EXPECT_EQ(f.kind, FindingKind::kHang);
  EXPECT_EQ(f.severity, Severity::kCrit);
  EXPECT_EQ(f.cause, Cause::kRankSilent);
  EXPECT_EQ(f.ranks, std::vector<int>{1});
  EXPECT_EQ(f.victims, (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(f.title,
            "Rank 1 sleeps at train.py:61 after in step 10; ranks 0, 2, 3 wait in all_reduce 3 of the default group");
  EXPECT_DOUBLE_EQ(f.cost_seconds, 6);
}

TEST(Hang, SaysNothingWhileThereIsPatience) {
  Job job = one_is_missing(2);
  job[1].patience_s = 30;  // it is at something that takes long
  EXPECT_FALSE(judge_hang(job).has_value());
  job = one_is_missing(2);
  for (RankStanding& r : job.ranks) r.silent_s = 4;
  EXPECT_FALSE(judge_hang(job).has_value());
}

TEST(Hang, ALongStepInNativeCodeIsGivenMoreTime) {
  Job job = one_is_missing(2);
  job.stands_at(1, 20, "forward", false, false);
  job[1].state = 'R';
  EXPECT_FALSE(judge_hang(job).has_value());
  job[1].silent_s = 16;
  EXPECT_EQ(job.verdict().cause, Cause::kRankSilent);
  job = one_is_missing(2);
  job.stands_at(1, 20, "loop", false, true);  // in Python itself
  job[1].state = 'R';
  EXPECT_EQ(job.verdict().ranks, std::vector<int>{1});
}

TEST(Hang, ALoaderThatWaitsForAWorkerThatStands) {
  Job job = one_is_missing(2);
  job.stands_at(1, 70, "main", false, false);
  job[1].wait_channel = "do_poll";
  EXPECT_EQ(job.verdict().title.find("worker"), std::string::npos);
  job[1].stuck_workers = {{4242, 3, "futex_wait_queue", 6}};
  const Finding f = job.verdict();
  EXPECT_EQ(f.ranks, std::vector<int>{1});
  EXPECT_NE(f.title.find("Rank 1 waits in its loader at train.py:70 main for worker 3, process 4242, which waits for "
                         "a lock or another thread (futex_wait_queue) in step 10"),
            std::string::npos)
      << f.title;
  EXPECT_NE(f.action.find("spawn"), std::string::npos);
  job[1].cpu_share = 1;  // it makes something of a batch itself
  job[1].silent_s = 20;
  EXPECT_EQ(job.verdict().title.find("worker"), std::string::npos);
}

TEST(Hang, TellsTheCausesOfASilentRankApart) {
  struct Case {
    char state;
    const char* channel;
    bool gil, python;
    Cause cause;
  };
  for (const Case& c : {Case{'S', "futex_wait_queue", false, false, Cause::kRankSilent},
                        Case{'S', "futex_wait_queue", true, false, Cause::kGilHeld},
                        Case{'S', "anon_pipe_read", false, false, Cause::kWaitingOnIo},
                        Case{'D', "nfs_wait_bit_killable", false, false, Cause::kWaitingOnIo},
                        Case{'T', "do_signal_stop", false, true, Cause::kStopped},
                        Case{'t', "ptrace_stop", false, true, Cause::kStopped}}) {
    Job job = one_is_missing(2);
    job.stands_at(1, 61, "after", c.gil, c.python);
    job[1].state = c.state;
    job[1].wait_channel = c.channel;
    EXPECT_EQ(job.verdict().cause, c.cause) << c.state << ' ' << c.channel;
  }
}

TEST(Hang, FollowsWaitsThroughGroupsToTheRoot) {
  Job job(4);  // 0 waits for 1 in a pair, 2 and 3 wait for 0 and 1 in the whole; 1 sleeps
  job.groups[kPair] = {"pair", {0, 1}};
  for (int rank : {2, 3}) job.issued(rank, 1), job.waits(rank);
  job.issued(0, 2, CollectiveOp::kAllGather, 64, kPair);
  job.waits(0, kPair);
  job.issued(1, 1, CollectiveOp::kAllGather, 64, kPair);
  job.stands_at(1, 5, "pause");
  const Finding f = job.verdict();
  EXPECT_EQ(f.ranks, std::vector<int>{1});
  EXPECT_EQ(f.victims, (std::vector<int>{0, 2, 3}));
}

TEST(Hang, DifferentOperationsAtOnePlace) {
  Job job(2);
  for (int rank : {0, 1}) job.issued(rank, 3);
  job.issued(0, 4, CollectiveOp::kAllReduce, 4000);
  job.issued(1, 4, CollectiveOp::kBroadcast, 40);
  for (int rank : {0, 1}) job.waits(rank);
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kMismatchedCollective);
  EXPECT_EQ(f.ranks, (std::vector<int>{0, 1}));
  EXPECT_NE(f.title.find("rank 0 called all_reduce (4000 bytes)"), std::string::npos) << f.title;
  EXPECT_NE(f.title.find("rank 1 called broadcast"), std::string::npos) << f.title;
}

// The root of a broadcast does not wait: it is found in the next step.
TEST(Hang, DifferentOperationsOfWhichOneDidNotBlock) {
  Job job(2);
  for (int rank : {0, 1}) job.issued(rank, 3);
  job.issued(0, 4, CollectiveOp::kAllReduce, 4000);
  job.issued(1, 4, CollectiveOp::kBroadcast, 40);
  job.issued(1, 5);
  for (int rank : {0, 1}) job.waits(rank);
  EXPECT_EQ(job.verdict().cause, Cause::kMismatchedCollective);
  EXPECT_EQ(job.verdict().ranks, (std::vector<int>{0, 1}));
}

TEST(Hang, AMajorityDecidesWhoIsWrong) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) {
    job.issued(rank, 1, CollectiveOp::kAllReduce, rank == 2 ? 8 : 4096);
    job.waits(rank);
  }
  EXPECT_EQ(job.verdict().ranks, std::vector<int>{2});
}

TEST(Hang, OneIsInAStepThatTheOthersDoNotTake) {
  Job job(2);
  for (int rank : {0, 1}) job.issued(rank, 3);
  job.issued(0, 4);
  job[0].groups[kWorld].newest.back().in_backward = true;
  job.issued(1, 4, CollectiveOp::kBarrier, 0);
  for (int rank : {0, 1}) job.waits(rank);
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kUnevenSteps);
  EXPECT_EQ(f.ranks, std::vector<int>{1});
  EXPECT_EQ(f.victims, std::vector<int>{0});
  EXPECT_NE(f.title.find("rank 1 never did so before, rank 0 does as always"), std::string::npos) << f.title;
}

// Both ranks all-reduce, and gather at the end of some steps; now rank 0 all-reduces and rank 1 does `last`.
Job went_apart(std::initializer_list<CollectiveOp> before, CollectiveOp last) {
  Job job(2);
  uint64_t count = 0;
  for (const CollectiveOp op : before) {
    ++count;
    for (int rank : {0, 1}) job.issued(rank, count, op, 4096);
  }
  job.issued(0, count + 1, CollectiveOp::kAllReduce, 4096);
  job.issued(1, count + 1, last, 4096);
  for (int rank : {0, 1}) job.waits(rank);
  return job;
}

TEST(Hang, WhatWasBeforeTellsWhichOfTwoIsWrong) {
  constexpr auto kReduce = CollectiveOp::kAllReduce, kGather = CollectiveOp::kAllGather;
  const std::vector<int> odd = {1}, both = {0, 1};
  EXPECT_EQ(went_apart({kReduce, kReduce, kReduce}, kGather).verdict().ranks, odd);
  EXPECT_EQ(went_apart({kGather, kReduce, kReduce, kReduce}, kGather).verdict().ranks, odd);  // never after a reduce
  // Too little was before, or both have done either.
  EXPECT_EQ(went_apart({kReduce, kReduce}, kGather).verdict().ranks, both);
  EXPECT_EQ(went_apart({kReduce, kReduce, kReduce, kGather, kReduce}, kGather).verdict().ranks, both);
  const Finding f = went_apart({kReduce, kReduce}, kGather).verdict();
  EXPECT_NE(f.title.find("what they did before does not tell which of them is wrong"), std::string::npos) << f.title;
  // Nobody does as always.
  EXPECT_EQ(went_apart({kGather, kGather, kGather}, kGather).verdict().ranks, std::vector<int>{0});
  EXPECT_EQ(went_apart({kGather, kGather, kGather}, CollectiveOp::kBroadcast).verdict().ranks, both);
}

TEST(Hang, NorIsWhoseDataNobodyTellsOf) {
  Job job = went_apart({CollectiveOp::kAllReduce, CollectiveOp::kAllReduce, CollectiveOp::kAllReduce},
                       CollectiveOp::kBarrier);
  EXPECT_EQ(job.verdict().ranks, std::vector<int>{1});
  for (RankStanding& r : job.ranks) r.data_seen = false;  // the loop of rank 1 may be over, and that of rank 0 too long
  EXPECT_EQ(job.verdict().ranks, (std::vector<int>{0, 1}));
  job[1].groups[kWorld].newest.back().in_backward = true;
  EXPECT_EQ(job.verdict().ranks, std::vector<int>{1}) << "it is in its loop";
}

TEST(Hang, WhoseDataEndedIsNotOdd) {
  Job job = went_apart({CollectiveOp::kAllReduce, CollectiveOp::kAllReduce, CollectiveOp::kAllReduce},
                       CollectiveOp::kBarrier);
  job[1].data_ended = true;
  const Finding f = job.verdict();
  EXPECT_EQ(f.ranks, (std::vector<int>{0, 1}));
  EXPECT_NE(f.title.find("the data of rank 1 ended"), std::string::npos) << f.title;
}

TEST(Hang, MoreThanHalfAreNotOdd) {
  Job job(3);
  for (int rank : {0, 1, 2}) job.issued(rank, 3);
  job.issued(0, 4);
  for (int rank : {1, 2}) job.issued(rank, 4, CollectiveOp::kBarrier, 0);
  for (int rank : {0, 1, 2}) {
    job.waits(rank);
    job[rank].groups.at(kWorld).newest.back().in_backward = rank == 0;
  }
  EXPECT_EQ(job.verdict().ranks, (std::vector<int>{0, 1, 2}));
}

// Without hooks of process groups the ends of backwards are counted apart from waits: the ranks wait in a ring.
TEST(Hang, InARingTheOddOneIsNamedToo) {
  constexpr uint64_t kTails = 99;
  Job job(2);
  for (int rank : {0, 1}) job.issued(rank, 5, CollectiveOp::kAllReduce, 0, kTails);
  job.issued(0, 6, CollectiveOp::kAllReduce, 0, kTails);
  job.waits(0, kTails);
  job.issued(1, 1, CollectiveOp::kUnknown, 0);
  job.waits(1);
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kMismatchedCollective);
  EXPECT_EQ(f.ranks, std::vector<int>{1});
}

// It came to another operation a moment later, and is not yet silent for as long as the others.
TEST(Hang, ARankThatCameToAnotherOperationALittleLater) {
  Job job(2);
  job.issued(0, 4, CollectiveOp::kAllReduce, 4096);
  job.issued(1, 3, CollectiveOp::kAllReduce, 4096);
  job.issued(1, 4, CollectiveOp::kBarrier, 0);
  job.waits(0);
  job.waits(1);
  job[1].silent_s = 4.8;
  EXPECT_EQ(job.verdict().cause, Cause::kMismatchedCollective);
}

// On NCCL the hosts run on after a rank has skipped an operation, and stand in a synchronisation later.
TEST(Hang, HostsThatRanOnPastAnOperationThatOneSkipped) {
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) {
    job.issued(rank, 9, CollectiveOp::kAllReduce, 1 << 20);
    job.issued(rank, 10, CollectiveOp::kAllReduce, 4000);  // both did so before
    job.issued(rank, 20, CollectiveOp::kAllReduce, 1 << 20);
    if (rank == 0) job.issued(rank, 21, CollectiveOp::kAllReduce, 4000);
    job.issued(rank, 24, CollectiveOp::kAllReduce, 1 << 20);
    job.stands_at(rank, 56, "main", false, false);
    job[rank].state = 'R';
    job[rank].cpu_share = 1;
  }
  for (int rank = 0; rank < 2; ++rank)
    for (IssuedOp& op : job[rank].groups.at(kWorld).newest)
      op.step_ends = op.sequence / 2, op.in_backward = rank == 1 || op.sequence != 20;
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kUnevenSteps);
  EXPECT_EQ(f.ranks, (std::vector<int>{0, 1}));
  EXPECT_NE(f.title.find("at place 20 of the group"), std::string::npos) << f.title;
  EXPECT_NE(f.title.find("rank 1 called all_reduce (1048576 bytes) in the backward of step 9"), std::string::npos)
      << f.title;  // it stands in step 10, and has issued what belongs to step 11 of this count
}

// The host of rank 0 went on to its synchronisation; rank 1 sleeps in the program.
TEST(Hang, AHostThatWaitsForItsDeviceIsAVictim) {
  for (const bool stacks : {true, false}) {
    Job job(2);
    job.issued(0, 25);
    job.issued(1, 20);
    job[0].state = 'R';
    job[0].cpu_share = 1;
    job[1].wait_channel = "hrtimer_nanosleep";
    if (stacks) job.stands_at(0, 56, "main", false, false), job.stands_at(1, 30, "sleeps", false, false);
    const Finding f = job.verdict();
    EXPECT_EQ(f.cause, Cause::kRankSilent);
    EXPECT_EQ(f.ranks, std::vector<int>{1});
    EXPECT_EQ(f.victims, std::vector<int>{0});
  }
}

// Nobody is behind, and all are in native code: the devices do not finish.
TEST(Hang, DevicesThatDoNotFinish) {
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) {
    job.issued(rank, 25);
    job.stands_at(rank, 56, "main", false, false);
    job[rank].state = 'R';
    job[rank].cpu_share = 1;
  }
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kNone) << "the link and a kernel look the same";
  EXPECT_TRUE(f.ranks.empty());
  EXPECT_NE(f.title.find("wait for their devices"), std::string::npos) << f.title;
  job[1].stack->in_interpreter = true;  // a loop of its own
  job[0].silent_s = job[1].silent_s = 20;
  const Finding own = job.verdict();
  EXPECT_EQ(own.cause, Cause::kRankSilent);
}

// Gloo ends a rank by a signal where sizes differ.
TEST(Fallen, OverDifferentOperations) {
  Job job(2);
  for (int rank = 0; rank < 2; ++rank) job.issued(rank, 30);
  job.issued(0, 31, CollectiveOp::kAllReduce, 308);
  EXPECT_FALSE(judge_fallen(job)) << "nobody has fallen";
  job[1].ended = true;
  job[1].exit_signal = 6;
  EXPECT_FALSE(judge_fallen(job)) << "the other had not come to it";
  job.issued(1, 31);
  const auto f = judge_fallen(job);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->kind, FindingKind::kRankLost);
  EXPECT_EQ(f->cause, Cause::kMismatchedCollective);
  EXPECT_EQ(f->ranks, std::vector<int>{0}) << "it never did so before";
  EXPECT_EQ(f->victims, std::vector<int>{1});
  EXPECT_NE(f->title.find("rank 0 called all_reduce (308 bytes)"), std::string::npos) << f->title;
  std::vector<Finding> findings{Finding::of(FindingKind::kRankLost)};
  findings[0].severity = Severity::kCrit;
  findings[0].ranks = {1};
  findings[0].title = "Rank 1 was killed by signal 6";
  tell_fallen(*f, findings);
  EXPECT_EQ(findings[0].title, f->title);
  EXPECT_EQ(findings[0].evidence.at(0).text, "Rank 1 was killed by signal 6");
  EXPECT_EQ(findings[0].evidence.at(0).rank, 1);
}

TEST(Fallen, NotOverWhatTheyHadLivedWith) {
  Job job(2);
  job.issued(0, 30), job.issued(1, 29);
  job.issued(1, 30, CollectiveOp::kBroadcast);
  job.issued(0, 31, CollectiveOp::kBroadcast), job.issued(1, 31);
  job[1].exception = "ValueError: bad batch";
  EXPECT_FALSE(judge_fallen(job)) << "they differed before, and went on";
}

// Four ranks in native code, all of which have issued the same.
Job all_on_devices() {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) {
    job.issued(rank, 25);
    job.stands_at(rank, 56, "main", false, false);
    job[rank].state = 'R';
    job[rank].cpu_share = 1;
    job[rank].silent_s = 20;
    job[rank].device = DevicePlace{
        .step = 9, .boundary = 4, .what = pack_kind(Kind::kBackward, Edge::kEnd), .steps_ago = 1, .pending = true};
  }
  return job;
}

TEST(Hang, TheDeviceThatStandsBeforeTheOthers) {
  Job job = all_on_devices();
  job[2].device->boundary = 0;
  job[2].device->what = pack_kind(Kind::kForward, Edge::kBegin);
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kDeviceWork);
  EXPECT_EQ(f.ranks, std::vector<int>{2});
  EXPECT_EQ(f.victims, (std::vector<int>{0, 1, 3}));
  EXPECT_EQ(f.title,
            "Rank 2 waits for its device, which does not reach the forward of step 9; those of ranks 0, 1, 3 have, and "
            "all have issued the same, up to all_reduce 24 of the default group");
  job[1].device->boundary = 0;  // two of them: one may wait for the other
  const Finding two = job.verdict();
  EXPECT_EQ(two.cause, Cause::kNone);
  EXPECT_EQ(two.ranks, (std::vector<int>{1, 2}));
}

TEST(Hang, TheDeviceBehindHostsThatWaitInBackward) {
  Job job = all_on_devices();
  for (int rank = 0; rank < 4; ++rank) job.waits(rank);
  EXPECT_EQ(job.verdict().cause, Cause::kNone);
  job[2].device->step = 8;
  job[2].device->steps_ago = 2;
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kDeviceWork);
  EXPECT_EQ(f.ranks, std::vector<int>{2});
  for (RankStanding& r : job.ranks) r.device->pending = false;  // gloo: nothing waits on a device
  EXPECT_EQ(job.verdict().cause, Cause::kTransport);
}

TEST(Hang, NoDeviceIsNamedWithoutItsPlace) {
  Job job = all_on_devices();
  EXPECT_TRUE(job.verdict().ranks.empty()) << "all at one place";
  job[2].device->boundary = 0;
  job[2].device->pending = false;  // it has done all that it was given
  EXPECT_TRUE(job.verdict().ranks.empty());
  job[2].device->pending = true;
  job[0].device.reset();
  EXPECT_TRUE(job.verdict().ranks.empty()) << "where that of rank 0 is, is not known";
}

// Its host waits for its device and so issues nothing more.
TEST(Hang, AHostThatItsDeviceHoldsBack) {
  Job job = all_on_devices();
  for (const int rank : {0, 1, 3}) job.issued(rank, 26);
  job[2].device->boundary = 1;
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kDeviceWork);
  EXPECT_EQ(f.ranks, std::vector<int>{2});
  EXPECT_NE(f.title.find("waits for its device"), std::string::npos) << f.title;
  job[2].stack->in_interpreter = true;
  EXPECT_EQ(job.verdict().cause, Cause::kRankSilent) << "its Python runs";
}

// It is ahead in one group, but the other waits for its message: its own code keeps both.
TEST(Hang, AheadInOneGroupAndMissedInAnother) {
  Job job(2);
  job.issued(0, 4);
  job.issued(1, 3);
  job.stands_at(0, 12, "load", false, false);
  job[1].awaits = AwaitedOp{.group = kWorld, .sequence = 0, .peer = 0};
  EXPECT_EQ(job.verdict().ranks, std::vector<int>{0});
}

TEST(Hang, ARankLeftTheLoop) {
  Job job = one_is_missing(2);
  job[1].leaving = true;
  EXPECT_EQ(job.verdict().cause, Cause::kUnevenSteps);
  EXPECT_EQ(job.verdict().ranks, std::vector<int>{1});
  job[1].ended = job[1].clean = true;
  EXPECT_EQ(job.verdict().cause, Cause::kUnevenSteps);
}

TEST(Hang, ARankRaisedOrWasKilled) {
  Job job = one_is_missing(2);
  job[1].ended = true;
  job[1].exception = "ValueError: NaN loss";
  EXPECT_EQ(job.verdict().cause, Cause::kRankExited);
  EXPECT_NE(job.verdict().title.find("left with ValueError: NaN loss"), std::string::npos);
  job[1].exception.clear();
  job[1].exit_signal = 9;
  EXPECT_EQ(job.verdict().cause, Cause::kRankExited);
}

TEST(Hang, AllHaveArrivedAndNothingMoves) {
  Job job(2);
  for (int rank : {0, 1}) job.issued(rank, 4), job.waits(rank);
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kTransport);
  EXPECT_TRUE(f.job_scope && f.ranks.empty());
  EXPECT_EQ(f.victims, (std::vector<int>{0, 1}));
}

// Torch before 2.14: waits are counted, what for is not told. A mismatch looks the same.
TEST(Hang, CountedWaitsDoNotTellThatAllMeanTheSame) {
  Job job(2);
  for (int rank : {0, 1}) job.issued(rank, 4, CollectiveOp::kUnknown, 0), job.waits(rank);
  const Finding f = job.verdict();
  EXPECT_EQ(f.cause, Cause::kNone);
  EXPECT_NE(f.title.find("all ranks wait in operation 3 of the default group, and this torch does not tell in which "
                         "operations: they may differ"),
            std::string::npos)
      << f.title;
}

TEST(Hang, WaitsForARankThatWasNotSeen) {
  Job job(2);
  job.ranks.pop_back();
  job.issued(0, 4);
  job.waits(0);
  EXPECT_EQ(job.verdict().cause, Cause::kPeerNotSeen);
}

TEST(Hang, OneNeverJoinsTheGroup) {
  Job job(3);
  for (int rank : {0, 2}) job[rank].in_init = true, job[rank].joined = false;
  job[1].joined = false;
  job.stands_at(1, 7, "load");
  const Finding f = job.verdict();
  EXPECT_EQ(f.ranks, std::vector<int>{1});
  EXPECT_NE(f.title.find("wait in init_process_group"), std::string::npos) << f.title;
}

TEST(Hang, ASingleProcessThatStands) {
  Job job(1);
  job.stands_at(0, 3, "wait");
  const Finding f = job.verdict();
  EXPECT_EQ(f.ranks, std::vector<int>{0});
  EXPECT_TRUE(f.victims.empty());
}

TEST(Hang, RanksAtTheSamePlaceAreOneLine) {
  Job job = one_is_missing(4);
  for (int rank : {0, 2, 3}) job.stands_at(rank, 30, "step");
  job.stands_at(1, 61, "after");
  const std::vector<std::string> lines = merged_stacks(job);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], "ranks 0, 2, 3 · train.py:30 step < train.py:9 <module> · for 6 s");
}

TEST(Hang, TheProgramsOwnFrameIsNamedBeforeTheLibrarys) {
  EXPECT_EQ(place_in_program({{327, "wait", "/usr/lib/python3.11/threading.py"}, {8, "load", "/x/data.py"}}),
            "data.py:8 load (python3.11/threading.py:327 wait)");
  EXPECT_EQ(place_in_program({}), "");
}

TEST(Hang, WhoFallsWhileTheJobStandsIsNoLossOfItsOwn) {
  Job job = one_is_missing(2);
  job.stands_at(1, 61, "after");
  Finding lost = Finding::of(FindingKind::kRankLost);
  lost.severity = Severity::kCrit;
  lost.ranks = {0};
  std::vector<Finding> said = {lost};
  add_hang(job.verdict(), said);
  ASSERT_EQ(said.size(), 2u);
  EXPECT_EQ(said[0].severity, Severity::kInfo);
}

}  // namespace
}  // namespace stepscope
