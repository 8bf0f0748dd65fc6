#include "diagnose/finding.h"

#include "diagnose/finding_book.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(Finding, KindsArePrintedAsUsersKnowThem) {
  EXPECT_EQ(display_name(FindingKind::kInputBound), "INPUT-BOUND");
  EXPECT_EQ(display_name(FindingKind::kCommBound), "COMM-BOUND");
  EXPECT_EQ(display_name(FindingKind::kWaitHeavy), "WAIT-HEAVY");
  EXPECT_EQ(display_name(FindingKind::kValidationHeavy), "VALIDATION-HEAVY");
  EXPECT_EQ(display_name(FindingKind::kBetweenStepsHeavy), "BETWEEN-STEPS HEAVY");
  EXPECT_EQ(display_name(FindingKind::kComputeStraggler), "COMPUTE STRAGGLER");
  EXPECT_EQ(display_name(FindingKind::kMemoryCreepEarly), "MEMORY CREEP (EARLY)");
  EXPECT_EQ(display_name(FindingKind::kNoData), "NO DATA");
  EXPECT_EQ(display_name(FindingKind::kBalanced), "BALANCED");
  EXPECT_EQ(display_name({}), "");
}

TEST(Finding, DocIsThePageOfItsKind) {
  EXPECT_EQ(Finding{.kind = FindingKind::kComputeStraggler}.doc(), "findings/compute-straggler");
  EXPECT_EQ(Finding{.kind = FindingKind::kHang}.doc(), "findings/hang");
}

Finding said(int64_t first_step) {
  return {
      .kind = FindingKind::kInputBound, .severity = Severity::kWarn, .phase = "input_wait", .first_step = first_step};
}

Finding dated(const FindingBook& book, int64_t first_step) {
  std::vector<Finding> list = {said(first_step)};
  book.date(list, 999);
  return list[0];
}

TEST(FindingBook, DatesAFindingByItsOpening) {
  FindingBook book;
  for (int64_t step = 12; step < 300; step += 4) book.note({said(0)}, step);
  EXPECT_EQ(dated(book, 0).detected_step, 12);
  EXPECT_EQ(dated(book, 0).first_step, 0);
  std::vector<Finding> other = {said(0)};
  other[0].phase = "forward";
  book.date(other, 999);
  EXPECT_EQ(other[0].detected_step, 999);
}

TEST(FindingBook, WhatWasSeenBeganNoLater) {
  FindingBook book;
  for (int64_t step = 12; step < 300; step += 4) book.note({said(2)}, step);
  EXPECT_EQ(dated(book, 28).detected_step, 12);
  EXPECT_EQ(dated(book, 28).first_step, 2);
}

TEST(FindingBook, AnEarlierAlarmThatPassedIsAnotherOne) {
  FindingBook book;
  book.note({said(3)}, 16);
  book.note({said(500)}, 512);
  EXPECT_EQ(dated(book, 500).detected_step, 512);
  EXPECT_EQ(dated(book, 500).first_step, 500);
  EXPECT_EQ(dated(book, 0).detected_step, 16);  // what comes in long periods began with its first
}

TEST(FindingBook, InfoOpensNothing) {
  FindingBook book;
  Finding info = said(0);
  info.severity = Severity::kInfo;
  book.note({info}, 16);
  EXPECT_EQ(dated(book, 0).detected_step, 999);
}

}  // namespace
}  // namespace stepscope
