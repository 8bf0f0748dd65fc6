#include "align/device_progress.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

class DeviceProgressTest : public ::testing::Test {
 protected:
  void host(uint64_t at, Kind kind, Edge edge) { p_.push({.time_ns = at, .kind = pack_kind(kind, edge)}); }
  void device(uint64_t at, Kind kind, Edge edge, uint16_t flags = 0) {
    p_.push(
        {.time_ns = at, .kind = pack_kind(Kind::kGpuMark, Edge::kMark), .flags = flags, .a = pack_kind(kind, edge)});
  }
  // One step from `at` on: forward, backward, optimizer. The device reaches its first `reached` boundaries.
  void step(uint64_t at, int reached = 4) {
    const std::pair<Kind, Edge> boundaries[] = {{Kind::kForward, Edge::kBegin},
                                                {Kind::kForward, Edge::kEnd},
                                                {Kind::kBackward, Edge::kBegin},
                                                {Kind::kBackward, Edge::kEnd}};
    for (uint64_t i = 0; i < 4; ++i) host(at + i, boundaries[i].first, boundaries[i].second);
    host(at + 5, Kind::kOptimizer, Edge::kBegin);
    host(at + 6, Kind::kOptimizer, Edge::kEnd);
    for (uint64_t i = 0; i < static_cast<uint64_t>(reached); ++i)
      device(at + i, boundaries[i].first, boundaries[i].second);
  }
  DeviceProgress p_;
};

TEST_F(DeviceProgressTest, StandsAtTheFirstBoundaryThatIsNotReached) {
  step(100, 0);  // before there was a device
  EXPECT_FALSE(p_.place());
  step(200);
  EXPECT_EQ(p_.place(), (DevicePlace{.step = 2}));
  step(300, 2);
  step(400, 0);
  const DevicePlace stands{.step = 2,
                           .boundary = 2,
                           .what = pack_kind(Kind::kBackward, Edge::kBegin),
                           .issued_ns = 302,
                           .steps_ago = 2,
                           .pending = true};
  EXPECT_EQ(p_.place(), stands);
  device(302, Kind::kBackward, Edge::kBegin);
  EXPECT_EQ(p_.place()->boundary, 3u);
}

TEST_F(DeviceProgressTest, IsNotKnownOnceABoundaryHadNoEvent) {
  for (int way = 0; way < 4; ++way) {
    p_ = {};
    step(100);
    step(200, way == 3 ? 4 : 1);
    if (way == 0) device(202, Kind::kBackward, Edge::kBegin);  // 201 was left out
    if (way == 1) device(201, Kind::kForward, Edge::kEnd, kGpuCaptured);
    if (way == 2) p_.push({.kind = pack_kind(Kind::kGpuStatus, Edge::kMark), .b = 1});
    if (way == 3) device(999, Kind::kForward, Edge::kEnd);  // of what, is not known
    EXPECT_FALSE(p_.place()) << way;
  }
}

TEST_F(DeviceProgressTest, IsNotKnownTooFarBehind) {
  step(100);
  for (uint64_t i = 0; i <= DeviceProgress::kMost; ++i) host(1000 + i, Kind::kForward, Edge::kBegin);
  EXPECT_FALSE(p_.place());
}

TEST_F(DeviceProgressTest, EventsOfOtherKindsDoNotCount) {
  step(100);
  device(105, Kind::kOptimizer, Edge::kBegin);
  device(103, Kind::kWait, Edge::kBegin);
  p_.push({.kind = pack_kind(Kind::kGpuStatus, Edge::kMark)});
  EXPECT_EQ(p_.place(), (DevicePlace{.step = 1}));
}

}  // namespace
}  // namespace stepscope
