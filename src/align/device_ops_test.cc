// Announcements and times of operations on the device come together by what they count.
#include "align/device_ops.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

Event op(CollectiveOp what, uint64_t sequence, uint64_t bytes, uint64_t peer = 0) {
  Event e{};
  e.a = 9, e.b = sequence, e.c = bytes, e.d = static_cast<uint64_t>(what) | peer << 16;
  return e;
}

Event time_of(CollectiveOp what, uint64_t sequence, uint64_t end_ns, uint64_t peer = 0) {
  Event e{};
  e.a = 9, e.b = sequence | peer << 40 | static_cast<uint64_t>(what) << 56, e.c = end_ns - 1, e.d = end_ns;
  return e;
}

TEST(DeviceOps, MessagesToDifferentPeersHaveTheSameNumbers) {
  DeviceOps ops;
  ops.announced(op(CollectiveOp::kSend, 0, 100, 1));
  ops.announced(op(CollectiveOp::kSend, 0, 200, 2));
  ops.announced(op(CollectiveOp::kRecv, 0, 300, 2));
  ops.announced(op(CollectiveOp::kAllReduce, 0, 400));
  ops.timed(time_of(CollectiveOp::kSend, 0, 10, 2));
  ops.timed(time_of(CollectiveOp::kSend, 0, 11, 1));
  ops.timed(time_of(CollectiveOp::kAllReduce, 0, 12));
  ops.timed(time_of(CollectiveOp::kRecv, 0, 13, 2));
  std::vector<DeviceOp> out;
  ops.take_until(100, out);
  ASSERT_EQ(out.size(), 4u);
  EXPECT_EQ(out[0].bytes, 200u);
  EXPECT_EQ(out[1].bytes, 100u);
  EXPECT_EQ(out[2].bytes, 400u);
  EXPECT_EQ(out[3].bytes, 300u);
}

TEST(DeviceOps, ATimeEndsTheWaitForThoseBeforeIt) {
  DeviceOps ops;
  for (uint64_t i = 0; i < 3; ++i) ops.announced(op(CollectiveOp::kAllReduce, i, 10 + i));
  ops.timed(time_of(CollectiveOp::kAllReduce, 1, 10));
  ops.timed(time_of(CollectiveOp::kAllReduce, 0, 11));  // it was not to come any more
  ops.timed(time_of(CollectiveOp::kAllReduce, 2, 12));
  std::vector<DeviceOp> out;
  ops.take_until(100, out);
  ASSERT_EQ(out.size(), 3u);
  EXPECT_EQ(out[0].bytes, 11u);
  EXPECT_EQ(out[1].bytes, 0u);
  EXPECT_EQ(out[2].bytes, 12u);
}

}  // namespace
}  // namespace stepscope
