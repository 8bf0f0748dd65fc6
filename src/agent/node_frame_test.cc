#include "agent/node_frame.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "scenario_play.h"
#include "verdict.h"

namespace stepscope {
namespace {

using examples::findings_text;
using examples::verdict;

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}
  uint64_t below(uint64_t n) { return bits_() % n; }
  bool often() { return below(4) != 0; }
  int64_t time(int64_t most_ns = 50'000'000) { return static_cast<int64_t>(below(static_cast<uint64_t>(most_ns))); }

  void fill(int64_t& v, field::Time) { v = often() ? time() : 0; }
  void fill(int64_t& v, field::MeasuredTime) { v = often() ? time() : -1; }
  void fill(double& v, field::Amount) { v = often() ? static_cast<double>(below(1u << 20)) : 1.0 / 3; }
  void fill(std::optional<double>& v, field::Reading) {
    constexpr double kOdd[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -0.0,
                               0.1, 1e300};
    v = often() ? std::optional<double>(static_cast<float>(2.5 + static_cast<double>(below(1000)) * 1e-3))
                : std::nullopt;
    if (below(8) == 0) v = kOdd[below(std::size(kOdd))];
  }
  template <class T, class Kind>
    requires std::integral<T> && (!std::derived_from<Kind, field::MeasuredTime>)
  void fill(T& v, Kind) {
    v = often() ? static_cast<T>(below(1000)) : Kind::kFact;
    if (below(16) == 0) v = std::numeric_limits<T>::max();
  }

  LedgerNs ledger() {
    LedgerNs ns{};
    for (size_t c = 0; c < kCategoryCount; ++c)
      if (!is_of_stalls(static_cast<Category>(c)) && often()) ns[c] = time();
    return ns;
  }
  template <class Line>
  int64_t timeline(Line& line, int64_t begin_ns, size_t stalls) {
    line.own = {};
    int64_t at_ns = begin_ns;
    for (size_t j = 0; j <= stalls; ++j) {
      line.segments.push_back(ledger());
      for (size_t c = 0; c < kCategoryCount; ++c)
        line.own[c] += line.segments.back()[c], at_ns += line.segments.back()[c];
      if (j == stalls) break;
      Stall stall{below(3) + 1, bits_(), at_ns, time(), static_cast<Category>(below(kCategoryCount))};
      if (below(4) == 0) stall.sync_point = {static_cast<int32_t>(below(8)), often(), often()};
      at_ns += stall.duration_ns;
      line.stalls.push_back(stall);
    }
    return at_ns - begin_ns;
  }

  RankStep step(uint64_t number, int64_t begin_ns, bool gpu) {
    RankStep s;
#define STEP_FIELD(kind, member, ...) fill(s.member, field::kind{});
#define FETCH_FIELD(kind, member, ...) fill(s.fetch.member, field::kind{});
#include "align/step_fields.def"
    if (often()) {
      s.memory.emplace();
#define MEMORY_FIELD(kind, member, ...) fill(s.memory->member, field::kind{});
#include "align/step_fields.def"
    }
    s.step = number;
    s.begin_ns = begin_ns;
    s.end_ns = begin_ns + timeline(s, begin_ns, gpu ? 0 : below(12));
    const size_t issues = below(20);
    for (size_t i = 0; i < issues; ++i) {
      CollectiveIssue issue{below(3) + 1, bits_(), below(1u << 24), static_cast<uint8_t>(below(8))};
      if (below(4) == 0) issue.p2p = true, issue.peer = static_cast<int32_t>(below(8));
      issue.time_ns = begin_ns;
      if (often()) issue.since_backward_ns = time();
      if (below(3) == 0) issue.done_ns = begin_ns + 1'000'000 + time();
      s.collectives.push_back(issue);
    }
    if (!gpu) return s;
    s.gpu.emplace();
    s.gpu->begin_ns = begin_ns + time();
    s.gpu->wall_ns = timeline(*s.gpu, s.gpu->begin_ns, below(6));
    s.gpu->host_bound = static_cast<uint32_t>(below(64));
    s.gpu->captured = often();
    for (const Category c : kLaunchPhases) s.gpu->launching[index(c)] = time();
    for (size_t i = 0; i < below(6); ++i) {
      const int64_t at_ns = begin_ns + time();
      s.device_ops.push_back({below(3), bits_(), below(1u << 24), static_cast<uint8_t>(below(8)),
                              static_cast<uint16_t>(below(8)), at_ns, at_ns + time()});
    }
    return s;
  }

 private:
  std::mt19937_64 bits_;
};

constexpr int64_t kUnitNs = 131072;  // the largest there is: times may be off by so much, sums of them too

template <class T>
void expect_figure(const T& was, const T& is, const char* name, bool is_time) {
  if constexpr (std::is_same_v<T, int64_t>) {
    if (is_time) {
      EXPECT_NEAR(static_cast<double>(was), static_cast<double>(is), kUnitNs) << name;
      EXPECT_EQ(was < 0, is < 0) << name;
      return;
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    EXPECT_EQ(std::bit_cast<uint64_t>(was), std::bit_cast<uint64_t>(is)) << name;
  } else if constexpr (std::is_same_v<T, std::optional<double>>) {
    ASSERT_EQ(was.has_value(), is.has_value()) << name;
    if (was) {
      EXPECT_EQ(std::bit_cast<uint64_t>(*was), std::bit_cast<uint64_t>(*is)) << name;
    }
  } else {
    EXPECT_EQ(was, is) << name;
  }
}

template <class Line>
void expect_timeline(const Line& was, const Line& is) {
  ASSERT_EQ(was.stalls.size(), is.stalls.size());
  ASSERT_EQ(was.segments.size(), is.segments.size());
  for (size_t j = 0; j < was.segments.size(); ++j)
    for (size_t c = 0; c < kCategoryCount; ++c) EXPECT_NEAR(was.segments[j][c], is.segments[j][c], kUnitNs);
  LedgerNs sum{};
  for (const LedgerNs& segment : is.segments)
    for (size_t c = 0; c < kCategoryCount; ++c) sum[c] += segment[c];
  EXPECT_EQ(sum, is.own);
  for (size_t j = 0; j < was.stalls.size(); ++j) {
    const Stall &a = was.stalls[j], &b = is.stalls[j];
    EXPECT_EQ(std::tie(a.group, a.sequence, a.phase), std::tie(b.group, b.sequence, b.phase));
    EXPECT_EQ(a.sync_point, b.sync_point);
    EXPECT_NEAR(a.duration_ns, b.duration_ns, kUnitNs);
    EXPECT_NEAR(a.begin_ns, b.begin_ns, 2 * kUnitNs);
  }
}

void expect_same(const RankStep& was, const RankStep& is) {
  EXPECT_EQ(was.step, is.step);
  EXPECT_NEAR(was.end_ns, is.end_ns, 2 * kUnitNs);
  EXPECT_NEAR(was.begin_ns, is.begin_ns, 2 * kUnitNs);
  int64_t parts_ns = is.stall_ns();
  for (const int64_t ns : is.own) parts_ns += ns;
  EXPECT_EQ(parts_ns, is.wall_ns());
#define FIGURE_OF(kind, member)                 \
  expect_figure(was.member, is.member, #member, \
                std::is_same_v<field::kind, field::Time> || std::is_base_of_v<field::MeasuredTime, field::kind>);
#define STEP_FIELD(kind, member, ...) FIGURE_OF(kind, member)
#define FETCH_FIELD(kind, member, ...) FIGURE_OF(kind, fetch.member)
#include "align/step_fields.def"
  ASSERT_EQ(was.memory.has_value(), is.memory.has_value());
  if (was.memory) {
#define MEMORY_FIELD(kind, member, ...) FIGURE_OF(kind, memory->member)
#include "align/step_fields.def"
  }
  ASSERT_EQ(was.collectives.size(), is.collectives.size());
  for (size_t i = 0; i < was.collectives.size(); ++i) {
    const CollectiveIssue &a = was.collectives[i], &b = is.collectives[i];
    EXPECT_EQ(std::tie(a.group, a.sequence, a.bytes, a.op, a.peer, a.p2p),
              std::tie(b.group, b.sequence, b.bytes, b.op, b.peer, b.p2p));
    EXPECT_EQ(a.since_backward_ns < 0, b.since_backward_ns < 0);
    EXPECT_NEAR(a.since_backward_ns, b.since_backward_ns, kUnitNs);
    EXPECT_EQ(a.done_ns > a.time_ns, b.done_ns > b.time_ns);
    if (a.done_ns > a.time_ns) {
      EXPECT_NEAR(a.done_ns - a.time_ns, b.done_ns - b.time_ns, kUnitNs);
    }
  }
  ASSERT_EQ(was.gpu.has_value(), is.gpu.has_value());
  if (!was.gpu) return expect_timeline(was, is);
  expect_timeline(*was.gpu, *is.gpu);
  for (size_t c = 0; c < kCategoryCount; ++c) EXPECT_NEAR(was.own[c], is.own[c], kUnitNs);
  EXPECT_EQ(was.gpu->host_bound, is.gpu->host_bound);
  EXPECT_EQ(was.gpu->captured, is.gpu->captured);
  EXPECT_NEAR(was.gpu->begin_ns, is.gpu->begin_ns, 3 * kUnitNs);
  for (const Category c : kLaunchPhases)
    EXPECT_NEAR(was.gpu->launching[index(c)], is.gpu->launching[index(c)], kUnitNs);
  ASSERT_EQ(was.device_ops.size(), is.device_ops.size());
  for (size_t i = 0; i < was.device_ops.size(); ++i) {
    const DeviceOp &a = was.device_ops[i], &b = is.device_ops[i];
    EXPECT_EQ(std::tie(a.group, a.sequence, a.bytes, a.op, a.peer),
              std::tie(b.group, b.sequence, b.bytes, b.op, b.peer));
    EXPECT_NEAR(a.begin_ns, b.begin_ns, 2 * kUnitNs);
    EXPECT_NEAR(a.end_ns - a.begin_ns, b.end_ns - b.begin_ns, kUnitNs);
  }
}

NodeFrame frame_of(std::vector<RankStep> steps) {
  NodeFrame frame{.run = "job", .node = 7, .sequence = 3, .oldest = 2, .hostname = "node1", .sent_ns = 99};
  frame.processes.push_back({.number = 1, .steps = std::move(steps)});
  return frame;
}

TEST(NodeFrame, StepsComeOutAsTheyWentIn) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<RankStep> steps;
    int64_t at_ns = 5'000'000'000;
    for (uint64_t i = 0; i < 8; ++i) {
      steps.push_back(random.step(10 + i + random.below(2) * i, at_ns, seed % 3 == 0));
      at_ns = steps.back().end_ns + (random.below(4) == 0 ? random.time() : 0);
    }
    const auto back = decode_frame(encode(frame_of(steps)));
    ASSERT_TRUE(back) << back.error().message;
    ASSERT_EQ(back->processes.at(0).steps.size(), steps.size());
    for (size_t i = 0; i < steps.size(); ++i) expect_same(steps[i], back->processes[0].steps[i]);
    if (HasFailure()) return;
  }
}

TEST(NodeFrame, WhatIsToldOfAProcessComesOutExactly) {
  NodeFrame frame = frame_of({});
  frame.least_offset_ns = -5, frame.last = true, frame.dropped_frames = 4, frame.notes = {"a note"};
  frame.load = HostLoad{.cores = 8, .rank_cores = 1.5, .worker_cores = 0.5, .others_cores = 0.25, .run_delay = 0.125};
  ProcessNews& news = frame.processes[0];
  news.now = {.steps = 9,
              .records = 8,
              .lost = 7,
              .torn = 6,
              .damaged = 5,
              .optimizer_ends = 4,
              .active_ns = 3,
              .last_step_ns = 2,
              .open_phase = Category::kOptimizer,
              .numbers_certain = false,
              .unsent = 1};
  news.identity.emplace();
  news.identity->rank = 5, news.identity->world_size = 8, news.identity->hostname = "node1", news.identity->pid = 77;
  news.identity->process_start_ns = 12345, news.identity->evidence = 1;
  RankLife& life = news.life.emplace();
  life.exception_frames = "12 load train.py", life.oom_kill = OomKill::kInGroup;
  life.exception = "ValueError: no", life.exit_code = 3, life.ended = true, life.startup[3] = 17;
  life.configuration.push_back({"ddp", 4, {{"bucket", "25"}}});
  life.sync_sites.push_back({"train.py:3", 5, 6});
  life.startup_meetings.push_back({1, 2, true, 3, 4});
  life.out_of_memory.push_back({.requested_bytes = 5, .phase = Category::kBackward});
  life.training_loaders = {1, 2}, life.unavailable = {"nvml: none"}, life.device = "cpu";
  news.ended_thread = "KeyError: x";
  news.groups[77] = {"default_pg", {0, 1, 2, 3}};
  news.communicators[5] = 16;
  news.facts[{static_cast<uint16_t>(NameKind::kFact), 3}] = "torch=2.14";
  news.code.push_back({.phase = Category::kForward,
                       .stalled = true,
                       .stay_ms = 7.5,
                       .module = "libc.so",
                       .program = {{12, "load", "train.py"}},
                       .callee = {3, "get", "queue.py"}});
  const auto back = decode_frame(encode(frame));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(encode(*back), encode(frame));
  const ProcessNews& is = back->processes.at(0);
  EXPECT_EQ(is.now, news.now);
  EXPECT_EQ(words_of(*is.identity), words_of(*news.identity));
  EXPECT_EQ(words_of(*is.life), words_of(life));
  EXPECT_EQ(is.life->exception, "ValueError: no");
  EXPECT_EQ(is.groups.at(77).ranks, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(is.facts, news.facts);
  EXPECT_EQ(is.code.at(0).program, news.code[0].program);
  EXPECT_EQ(back->load->worker_cores, 0.5);
  EXPECT_EQ(back->load->run_delay, 0.125);
  EXPECT_EQ(back->least_offset_ns, -5);
}

TEST(NodeFrame, WhatTheNodeSeesComesOutExactly) {
  NodeFrame frame = frame_of({});
  HostSight& host = frame.host.emplace();
  Finding finding = Finding::of(FindingKind::kCpuContention);
  finding.kind = KindWord::parsed("OF_A_NEWER_VERSION");
  finding.ranks = {2, 3}, finding.title = "a title", finding.action = "an action", finding.cost_share = 0.25;
  finding.saves = Saving{.share = 0.5, .low = 0.25, .high = std::nullopt, .caveat = "strangers"};
  finding.evidence = {{.name = "run_delay_share", .rank = 2, .value = 0.5, .text = "much"}, {.name = "words"}};
  host.findings = {finding};
  host.uses = {{.rank = 2, .cpu_share = 0.5, .rss_peak_bytes = 1e9, .uss_peak_bytes = std::nullopt}};
  host.rooms[3] = {.capacity_bytes = 8e10, .own_bytes = 1, .others = {{.pid = 7, .bytes = 9}}, .other_ranks_bytes = 2};
  JobStanding& job = frame.standing.emplace();
  job.world = 4, job.run_s = 12.5, job.groups[7] = {"tp", {2, 3}};
  RankStanding rank{.rank = 3, .leaving = true, .exception = "ValueError: no", .steps = 9, .silent_s = 11};
  rank.phase = Category::kBackward, rank.state = 'S', rank.wait_channel = "futex_wait", rank.cpu_share = 0.1;
  rank.stack = ThreadStack{.frames = {{12, "load", "train.py"}}, .holds_gil = true, .module = "libc.so"};
  rank.awaits = AwaitedOp{.group = 7, .sequence = 3, .since_ns = 5};
  for (uint64_t i = 0; i < 3 * kMostOps; ++i) rank.groups[7].add({.sequence = i, .bytes = 4, .op = 1});
  rank.turns.add(3, 4, 100), rank.data_ended = true, rank.data_seen = false;
  rank.device = DevicePlace{.step = 8, .boundary = 3, .what = 0x208, .issued_ns = 77, .steps_ago = 2, .pending = true};
  rank.stuck_workers = {{.pid = 9, .worker = 1, .wait_channel = "futex_wait", .stands_s = 2.5}};
  job.ranks = {rank};
  const auto back = decode_frame(encode(frame));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(encode(*back), encode(frame));
  EXPECT_EQ(back->host->findings.at(0).kind.str(), "OF_A_NEWER_VERSION");
  EXPECT_EQ(back->host->findings[0].evidence.at(0).value, 0.5);
  EXPECT_EQ(back->host->rooms.at(3).others.at(0).pid, 7);
  const RankStanding& is = back->standing->ranks.at(0);
  EXPECT_EQ(is.stack->frames, rank.stack->frames);
  EXPECT_EQ(is.groups.at(7).newest.size(), kMostOps);
  EXPECT_EQ(is.groups.at(7).newest.back().sequence, 3 * kMostOps - 1);
  EXPECT_EQ(is.awaits->sequence, 3u);
  EXPECT_EQ(is.device, rank.device);
  EXPECT_TRUE(is.data_ended && !is.data_seen);
  EXPECT_TRUE(is.turns.never_taken(4, 3, 200) && !is.turns.never_taken(3, 4, 200));
  EXPECT_EQ(is.stuck_workers.at(0).pid, 9);
}

TEST(NodeFrame, WhenItIsSentIsSetLater) {
  std::string bytes = encode(frame_of({}));
  set_sent(bytes, 123, 45);
  const auto back = decode_frame(bytes);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->sent_ns, 123);
  EXPECT_EQ(back->least_offset_ns, 45);
}

TEST(NodeFrame, DamageIsAnError) {
  Random random(5);
  const std::string bytes =
      encode(frame_of({random.step(1, 1'000'000'000, false), random.step(2, 2'000'000'000, true)}));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x41);
    EXPECT_FALSE(decode_frame(damaged)) << at;
    EXPECT_FALSE(decode_frame(bytes.substr(0, at))) << at;
  }
  EXPECT_FALSE(decode_frame(bytes + "x"));
  EXPECT_FALSE(decode_frame(std::string(kMaxFrameBytes + 1, 'S')));
}

// The check word is no guard against those who can count.
TEST(NodeFrame, DamageUnderARightCheckWordIsAnErrorOrAFrame) {
  Random random(6);
  std::string body = encode(frame_of({random.step(1, 1'000'000'000, false)}));
  size_t frames = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = body;
    for (uint64_t n = 1 + random.below(3); n > 0; --n)
      damaged[7 + random.below(damaged.size() - 11)] = static_cast<char>(random.below(256));
    damaged[6] = 0;
    set_sent(damaged, 1, std::nullopt);  // seals it
    frames += decode_frame(damaged).has_value();
  }
  EXPECT_LT(frames, 20'000u);
}

TEST(NodeFrame, AnotherVersionIsNamed) {
  std::string bytes = encode(frame_of({}));
  bytes[4] = 9;
  const auto back = decode_frame(bytes);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("version 9"), std::string::npos) << back.error().message;
  EXPECT_EQ(frame_version(bytes), 9);
}

TEST(NodeAnswer, ComesOutAsItWentIn) {
  const NodeAnswer answer{
      .aggregator = 5, .taken = 7, .tell_all = true, .now_ns = -3, .stamps = {{1, 100}}, .lines = {4, 1}};
  const auto back = decode_answer(encode(answer));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->aggregator, 5u);
  EXPECT_EQ(back->taken, 7u);
  EXPECT_TRUE(back->tell_all);
  EXPECT_EQ(back->now_ns, -3);
  EXPECT_EQ(back->stamps, answer.stamps);
  EXPECT_EQ(back->lines, answer.lines);
  EXPECT_FALSE(decode_answer(encode(frame_of({}))));
}

// Ranks of one group meet in equal sync points after summing up as before, and nothing is lost.
TEST(SumUpStalls, KeepsSumsAndMeets) {
  RankStep a, b;
  for (RankStep* s : {&a, &b}) {
    s->segments.emplace_back();
    for (uint64_t i = 0; i < 130; ++i) {
      const Category phase = i < 65 ? Category::kForward : Category::kBackward;
      s->stalls.push_back({7, i, static_cast<int64_t>(i), s == &a ? 100 : 200, phase});
      s->segments.emplace_back();
      s->segments.back()[index(phase)] = 10;
    }
    for (const LedgerNs& segment : s->segments)
      for (size_t c = 0; c < kCategoryCount; ++c) s->own[c] += segment[c];
    sum_up_stalls(*s);
  }
  ASSERT_EQ(a.stalls.size(), 2u);
  ASSERT_EQ(b.stalls.size(), 2u);
  ASSERT_EQ(a.segments.size(), 3u);
  EXPECT_EQ(a.stall_ns(), 13'000);
  EXPECT_EQ(b.stall_ns(), 26'000);
  for (size_t j = 0; j < 2; ++j) {
    EXPECT_EQ(a.stalls[j].group, b.stalls[j].group);
    EXPECT_EQ(a.stalls[j].sequence, b.stalls[j].sequence);
    EXPECT_EQ(a.stalls[j].phase, b.stalls[j].phase);
  }
  EXPECT_EQ(a.segments[0][index(Category::kForward)] + a.segments[1][index(Category::kForward)], 650);
}

// A second of a node's training: eight ranks, ten steps each, every time with noise of its own.
double bytes_per_step(size_t stalls, bool gpu, size_t buckets) {
  std::mt19937_64 bits(3);
  const auto noisy = [&](double ms) {
    return static_cast<int64_t>(ms * 1e6 * std::lognormal_distribution<double>(0, 0.03)(bits));
  };
  NodeFrame frame{.run = "job", .node = 1, .sequence = 1, .hostname = "node1"};
  for (uint64_t rank = 0; rank < 8; ++rank) {
    ProcessNews& news = frame.processes.emplace_back();
    news.number = rank;
    int64_t at_ns = 1'000'000'000;
    for (uint64_t i = 0; i < 10; ++i) {
      RankStep step;
      step.step = i, step.begin_ns = at_ns;
      const auto line = [&](auto& timeline) {
        int64_t wall_ns = 0;
        for (size_t j = 0; j <= stalls; ++j) {
          LedgerNs segment{};
          segment[index(Category::kBackward)] = noisy(40.0 / static_cast<double>(stalls + 1));
          if (j == 0)
            segment[index(Category::kForward)] = noisy(20), segment[index(Category::kInputWait)] = noisy(3),
            segment[index(Category::kH2d)] = noisy(1);
          if (j == stalls)
            segment[index(Category::kOptimizer)] = noisy(4), segment[index(Category::kUnattributed)] = noisy(2);
          timeline.segments.push_back(segment);
          for (size_t c = 0; c < kCategoryCount; ++c) timeline.own[c] += segment[c], wall_ns += segment[c];
          if (j == stalls) break;
          timeline.stalls.push_back({77, i * stalls + j, 0, noisy(30.0 / static_cast<double>(stalls)),
                                     j % 2 ? Category::kBackward : Category::kForward});
          wall_ns += timeline.stalls.back().duration_ns;
        }
        return wall_ns;
      };
      at_ns = step.end_ns = step.begin_ns + line(step);
      if (gpu) step.gpu.emplace(), step.gpu->begin_ns = step.begin_ns, step.gpu->wall_ns = line(*step.gpu);
      for (size_t k = 0; k < buckets; ++k)
        step.collectives.push_back(
            {.group = 77,
             .sequence = i * buckets + k,
             .bytes = 25u << 20,
             .op = 1,
             .since_backward_ns = noisy(40.0 * static_cast<double>(k + 1) / static_cast<double>(buckets))});
      step.samples = 32, step.fetch.fetches = 1, step.backwards = 1, step.optimizer_steps = 1;
      step.loss = static_cast<float>(2 + 1e-8 * static_cast<double>(noisy(1))), step.cpu_ns = noisy(60);
      step.involuntary_switches = static_cast<int>(bits() % 4);
      if (gpu) {
        step.memory.emplace();
        step.memory->allocated_bytes = step.memory->peak_bytes = 30'000'000'000 + 512 * (bits() % 4096);
        step.memory->reserved_bytes = 40'000'000'000;
      }
      sum_up_stalls(step);
      news.steps.push_back(std::move(step));
    }
  }
  return static_cast<double>(encode(frame).size()) / 80;
}

TEST(NodeFrame, AStepTakesFewBytes) {
  const double ddp = bytes_per_step(1, false, 6), gpu = bytes_per_step(1, true, 6),
               fsdp = bytes_per_step(130, false, 130);
  RecordProperty("ddp", std::to_string(ddp));
  RecordProperty("ddp_on_gpu", std::to_string(gpu));
  RecordProperty("fsdp", std::to_string(fsdp));
  EXPECT_LE(ddp, 64);
  EXPECT_LE(gpu, 64);
  EXPECT_LE(fsdp, 64);
}

// ---- Every scenario judged with the upper half of its ranks on another node: the same verdict.

class OtherNode : public testing::TestWithParam<std::string> {};

TEST_P(OtherNode, SaysTheSame) {
  const scenario::Scenario s = scenario::read(scenario::path_of(GetParam()));
  const Snapshot here = scenario::Play(s).run();
  scenario::Play play(s);
  play.on_the_way = [&](int rank, std::vector<RankStep> steps) {
    for (RankStep& step : steps) sum_up_stalls(step);
    if (steps.empty() || rank < s.ranks / 2) return steps;
    auto back = decode_frame(encode(frame_of(std::move(steps))));
    if (!back) throw std::runtime_error(back.error().message);
    return std::move(back->processes.at(0).steps);
  };
  const Snapshot there = play.run();
  EXPECT_EQ(verdict(here), verdict(there)) << "here\n" << findings_text(here) << "over nodes\n" << findings_text(there);
  EXPECT_EQ(here.steps, there.steps);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, OtherNode, testing::ValuesIn(scenario::files()),
                         [](const auto& info) { return scenario::test_name(info.param); });

}  // namespace
}  // namespace stepscope
