// Frames: what goes in comes out, every figure of step_fields.def included; anything else is refused.
#include "agent/node_frame.h"

#include <gtest/gtest.h>

#include <random>

#include "align/step_table.h"

namespace stepscope {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  uint64_t number(uint64_t below) { return engine_() % below; }
  int64_t us(uint64_t below) { return static_cast<int64_t>(number(below)) * 1000; }

  template <class T>
  void roll(T& value) {
    if constexpr (std::is_same_v<T, std::optional<double>>)
      value = number(2) ? std::optional(static_cast<double>(number(1000)) / 7) : std::nullopt;
    else if constexpr (std::is_same_v<T, double>)
      value = static_cast<double>(number(100000)) / 3;
    else
      value = static_cast<T>(number(1u << 30));
  }

 private:
  std::mt19937_64 engine_;
};

template <class Timeline>
int64_t fill(Dice& dice, Timeline& line) {
  int64_t wall_ns = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (!is_of_stalls(static_cast<Category>(c))) wall_ns += line.own[c] = dice.us(50'000);
  for (uint64_t i = dice.number(6); i > 0; --i) {
    Stall stall{.group = dice.number(1000), .sequence = dice.number(1000), .duration_ns = dice.us(9000)};
    stall.sync_point = {static_cast<int32_t>(dice.number(5)) - 1, dice.number(2) == 1, dice.number(2) == 1};
    wall_ns += stall.duration_ns;
    line.stalls.push_back(stall);
  }
  return wall_ns;
}

RankStep random_step(Dice& dice, uint64_t number) {
  RankStep step;
#define STEP_FIELD(kind, member, ...) dice.roll(step.member);
#define STEP_ONLY(kind, member, ...) dice.roll(step.member);
#define FETCH_FIELD(kind, member, ...) dice.roll(step.fetch.member);
#include "align/step_fields.def"
  if (dice.number(2)) {
    step.memory.emplace().near_top = dice.number(2) == 1;
#define MEMORY_FIELD(kind, member, ...) dice.roll(step.memory->member);
#include "align/step_fields.def"
  }
  step.step = number;
  step.end_ns = 5'000'000'000 + static_cast<int64_t>(number) * 1'000'000'000;
  step.begin_ns = step.end_ns - fill(dice, step);
  for (uint64_t i = dice.number(4); i > 0; --i)
    step.collectives.push_back({.group = 3,
                                .sequence = i,
                                .bytes = dice.number(1u << 20),
                                .op = 2,
                                .time_ns = step.begin_ns + 1000,
                                .done_ns = step.begin_ns + 4000,
                                .since_backward_ns = dice.us(1000)});
  for (uint64_t i = dice.number(4); i > 0; --i)
    step.device_ops.push_back({4, i, 100, 1, 2, step.begin_ns, step.begin_ns + dice.us(1000)});
  if (dice.number(2)) {
    GpuStep& gpu = step.gpu.emplace();
    gpu.begin_ns = step.begin_ns + 7000;
    gpu.host_bound = static_cast<uint32_t>(dice.number(64));
    gpu.launching[2] = dice.us(1000);
    gpu.wall_ns = fill(dice, gpu);
  }
  return step;
}

void expect_same(const RankStep& a, const RankStep& b) {
#define STEP_FIELD(kind, member, ...) EXPECT_EQ(a.member, b.member) << #member;
#define STEP_ONLY(kind, member, ...) EXPECT_EQ(a.member, b.member) << #member;
#define FETCH_FIELD(kind, member, ...) EXPECT_EQ(a.fetch.member, b.fetch.member) << #member;
#include "align/step_fields.def"
  ASSERT_EQ(a.memory.has_value(), b.memory.has_value());
  if (a.memory) {
    EXPECT_EQ(a.memory->near_top, b.memory->near_top);
#define MEMORY_FIELD(kind, member, ...) EXPECT_EQ(a.memory->member, b.memory->member) << #member;
#include "align/step_fields.def"
  }
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.begin_ns, b.begin_ns);
  EXPECT_EQ(a.end_ns, b.end_ns);
  const Cell x = to_cell(1, a), y = to_cell(1, b);
  EXPECT_EQ(x.ms, y.ms);
  EXPECT_EQ(x.host_ms, y.host_ms);
  EXPECT_EQ(x.launching_ms, y.launching_ms);
  EXPECT_EQ(x.host_bound, y.host_bound);
  EXPECT_EQ(x.wall_ms, y.wall_ms);
  EXPECT_EQ(x.bytes, y.bytes);
  EXPECT_EQ(x.device_comm_ms, y.device_comm_ms);
  EXPECT_EQ(x.bucket_ms, y.bucket_ms);
  ASSERT_EQ(x.stalls.size(), y.stalls.size());
  for (size_t i = 0; i < x.stalls.size(); ++i) {
    EXPECT_EQ(x.stalls[i].key(1), y.stalls[i].key(1));
    EXPECT_EQ(x.stalls[i].stall_ms, y.stalls[i].stall_ms);
    EXPECT_EQ(x.stalls[i].phase, y.stalls[i].phase);
  }
  ASSERT_EQ(x.timed_ops.size(), y.timed_ops.size());
  for (size_t i = 0; i < x.timed_ops.size(); ++i) EXPECT_EQ(x.timed_ops[i].ms, y.timed_ops[i].ms);
  EXPECT_EQ(y.segments.size(), y.stalls.size() + 1);
}

NodeFrame random_frame(uint64_t seed) {
  Dice dice(seed);
  NodeFrame frame{.nonce = "abc", .hostname = "n1", .sequence = seed, .now_ns = 77};
  for (uint64_t r = 0; r < 3; ++r) {
    RankNews& rank = frame.ranks.emplace_back();
    rank.process = r + 9;
    rank.identity.emplace().rank = static_cast<int>(r);
    rank.identity->hostname = "n1";
    RankLife& life = rank.life.emplace();
    life.exception = "ValueError: no";
    life.sync_sites = {{"train.py:3", 4, 5}};
    life.configuration = {{"ddp", 1, {{"a", "b"}}}};
    rank.groups = {{5, {"pp", {0, 2}}}};
    rank.facts = {"torch=2"};
    for (uint64_t s = 0; s < dice.number(20); ++s) rank.steps.push_back(random_step(dice, s));
  }
  return frame;
}

TEST(NodeFrame, WhatGoesInComesOut) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const NodeFrame frame = random_frame(seed);
    const auto back = decode_frame(encode_frame(frame));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->nonce, "abc");
    EXPECT_EQ(back->sequence, seed);
    EXPECT_EQ(back->now_ns, 77);
    ASSERT_EQ(back->ranks.size(), 3u);
    for (size_t r = 0; r < 3; ++r) {
      const RankNews &a = frame.ranks[r], &b = back->ranks[r];
      EXPECT_EQ(b.process, a.process);
      EXPECT_EQ(b.identity->rank, a.identity->rank);
      EXPECT_EQ(b.life->exception, a.life->exception);
      EXPECT_EQ(b.life->sync_sites.at(0).total_ns, 5);
      EXPECT_EQ(b.life->configuration.at(0).values.at("a"), "b");
      EXPECT_EQ(b.groups.at(0).second.ranks, a.groups.at(0).second.ranks);
      EXPECT_EQ(b.facts, a.facts);
      ASSERT_EQ(b.steps.size(), a.steps.size());
      for (size_t s = 0; s < a.steps.size(); ++s) expect_same(a.steps[s], b.steps[s]);
    }
  }
}

TEST(NodeFrame, DamageIsRefused) {
  const std::string bytes = encode_frame(random_frame(3));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode_frame(std::string_view(bytes).substr(0, size)));
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x11);
    EXPECT_FALSE(decode_frame(damaged)) << at;
  }
  EXPECT_FALSE(decode_frame(bytes + "x"));
}

TEST(NodeFrame, AnotherVersionSaysWhatToDo) {
  std::string bytes = encode_frame({});
  bytes[4] = 9;
  EXPECT_EQ(frame_version(bytes), 9);
  const auto back = decode_frame(bytes);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("version 9"), std::string::npos) << back.error().message;
}

}  // namespace
}  // namespace stepscope
