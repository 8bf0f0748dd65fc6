#include "diagnose/finding.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(Finding, KindsArePrintedAsUsersKnowThem) {
  EXPECT_EQ(display_name("INPUT_BOUND"), "INPUT-BOUND");
  EXPECT_EQ(display_name("COMM_BOUND"), "COMM-BOUND");
  EXPECT_EQ(display_name("WAIT_HEAVY"), "WAIT-HEAVY");
  EXPECT_EQ(display_name("VALIDATION_HEAVY"), "VALIDATION-HEAVY");
  EXPECT_EQ(display_name("BETWEEN_STEPS_HEAVY"), "BETWEEN-STEPS HEAVY");
  EXPECT_EQ(display_name("COMPUTE_STRAGGLER"), "COMPUTE STRAGGLER");
  EXPECT_EQ(display_name("MEMORY_CREEP_EARLY"), "MEMORY CREEP (EARLY)");
  EXPECT_EQ(display_name("NO_DATA"), "NO DATA");
  EXPECT_EQ(display_name("BALANCED"), "BALANCED");
  EXPECT_EQ(display_name(""), "");
}

TEST(Finding, DocIsThePageOfItsKind) {
  EXPECT_EQ(Finding{.kind = "COMPUTE_STRAGGLER"}.doc(), "findings/compute-straggler");
  EXPECT_EQ(Finding{.kind = "HANG"}.doc(), "findings/hang");
}

}  // namespace
}  // namespace stepscope
