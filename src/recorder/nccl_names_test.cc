#include <gtest/gtest.h>

#include "fake_nccl_job.h"

namespace stepscope::recorder {
namespace {

TEST(NcclNames, KnowsWhatNcclPrints) {
  EXPECT_EQ(op_of("AllReduce"), CollectiveOp::kAllReduce);
  EXPECT_EQ(op_of("ncclReduceScatter"), CollectiveOp::kReduceScatter);
  EXPECT_EQ(op_of("Recv"), CollectiveOp::kRecv);
  EXPECT_EQ(op_of(nullptr), CollectiveOp::kUnknown);
  EXPECT_EQ(op_of("AllReduceX"), CollectiveOp::kUnknown);
  EXPECT_EQ(datatype_bytes("ncclBfloat16"), 2u);
  EXPECT_EQ(datatype_bytes("ncclFloat8e4m3"), 1u);
  EXPECT_EQ(datatype_bytes("ncclInt64"), 8u);
  EXPECT_EQ(datatype_bytes("?"), 0u);
  EXPECT_EQ(algo_of("NVLS_TREE"), NcclAlgo::kNvlsTree);
  EXPECT_EQ(proto_of("SIMPLE"), NcclProto::kSimple);
}

}  // namespace
}  // namespace stepscope::recorder
