#include "diagnose/explanation.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "diagnose/finding_book.h"

namespace stepscope {
namespace {

Finding job(FindingKind kind, Category phase, double cost) {
  Finding f = Finding::of(kind);
  f.job_scope = true;
  f.phase = std::string(name(phase));
  f.cost_share = cost, f.cost_seconds = 100 * cost;
  f.severity = cost >= 0.2 ? Severity::kCrit : Severity::kWarn;
  return f;
}

Finding ranks(FindingKind kind, std::vector<int> who, Category phase, double cost, CauseWord cause = {}) {
  Finding f = job(kind, phase, cost);
  f.job_scope = false;
  f.ranks = std::move(who);
  f.cause = std::move(cause);
  return f;
}

using enum FindingKind;
using Roots = std::vector<int>;

TEST(Explanation, SmallCollectivesAreAPartOfTheTransfer) {
  std::vector<Finding> said = {job(kCommBound, Category::kCommTransfer, 0.4),
                               job(kExtraCollectives, Category::kCommTransfer, 0.15)};
  EXPECT_EQ(share_out(said), (Roots{-1, -1}));  // they are less than half of it: it has a rest of its own
  EXPECT_DOUBLE_EQ(said[0].cost_share, 0.25);
  EXPECT_DOUBLE_EQ(said[0].cost_seconds, 25);
  EXPECT_DOUBLE_EQ(said[1].cost_share, 0.15);
  said = {job(kCommBound, Category::kCommTransfer, 0.4), job(kExtraCollectives, Category::kCommTransfer, 0.3)};
  EXPECT_EQ(share_out(said), (Roots{1, -1}));
  EXPECT_DOUBLE_EQ(said[0].cost_share, 0.4);  // what it is, not what it owns
}

TEST(Explanation, ASumIsTheEffectOfItsLargestPart) {
  std::vector<Finding> said = {
      job(kBetweenStepsHeavy, Category::kUnattributed, 0.3), job(kCheckpointStall, Category::kCheckpoint, 0.08),
      job(kValidationHeavy, Category::kValidation, 0.1), job(kInputBound, Category::kInputWait, 0.3)};
  said[0].phase.clear();
  EXPECT_EQ(share_out(said), (Roots{2, -1, -1, -1}));
}

TEST(Explanation, PausesOfOneRankAreInTheSumOfWhatLiesBetweenSteps) {
  std::vector<Finding> said = {job(kBetweenStepsHeavy, Category::kUnattributed, 0.59),
                               ranks(kPauseStraggler, {0}, Category::kUnattributed, 0.46),
                               job(kValidationHeavy, Category::kValidation, 0.12),
                               ranks(kComputeStraggler, {1}, Category::kBackward, 0.2)};
  said[0].phase.clear();
  EXPECT_EQ(share_out(said), (Roots{1, -1, -1, -1}));
}

TEST(Explanation, ARankThatHasNoCoreIsSlowInAllItDoes) {
  const auto contention = ranks(kCpuContention, {1}, Category::kUnattributed, 0.3);
  for (const auto& [cause, by] : {std::pair{CauseWord(Cause::kSameWorkSlower), 1}, std::pair{CauseWord(), -1}}) {
    std::vector<Finding> said = {ranks(kComputeStraggler, {1}, Category::kBackward, 0.25, cause), contention};
    said[1].phase.clear();
    EXPECT_EQ(share_out(said), (Roots{by, -1}));
  }
  std::vector<Finding> another = {ranks(kComputeStraggler, {0}, Category::kBackward, 0.25, Cause::kSameWorkSlower),
                                  contention};
  another[1].phase.clear();
  EXPECT_EQ(share_out(another), (Roots{-1, -1}));  // of another rank
}

// Who is late although all ranks share the host is named before the host is.
TEST(Explanation, AFullHostComesAfterTheRankThatIsLateOnIt) {
  std::vector<Finding> said = {job(kCpuContention, Category::kUnattributed, 0.4),
                               ranks(kComputeStraggler, {1}, Category::kBackward, 0.25, Cause::kSameWorkSlower)};
  said[0].phase.clear(), said[0].cause = Cause::kOwnProcesses;
  EXPECT_EQ(share_out(said), (Roots{-1, -1}));
  EXPECT_DOUBLE_EQ(said[1].cost_share, 0.25);
}

// Ranks that take turns at having no core wait for each other. What is lost in other ways stays open.
TEST(Explanation, WaitingForRanksWithoutACoreIsNoLossOfItsOwn) {
  std::vector<Finding> said = {job(kUnexplainedLoss, Category::kStragglerWait, 0.2),
                               job(kUnexplainedLoss, Category::kInputWait, 0.2),
                               job(kCpuContention, Category::kUnattributed, 0.19)};
  said[2].phase.clear();
  EXPECT_EQ(share_out(said), (Roots{2, -1, -1}));
}

TEST(Explanation, TwoRanksAreTwoFaults) {
  std::vector<Finding> said = {ranks(kComputeStraggler, {1}, Category::kBackward, 0.25),
                               ranks(kInputStraggler, {2}, Category::kInputWait, 0.2),
                               job(kInputBound, Category::kInputWait, 0.2)};
  EXPECT_EQ(share_out(said), (Roots{-1, -1, -1}));
  EXPECT_DOUBLE_EQ(said[2].cost_share, 0.2);  // all wait for input, and the others for rank 2
}

TEST(Explanation, AChangeInAPhaseIsWhatIsSaidOfThePhase) {
  std::vector<Finding> said = {job(kStepTimeChange, Category::kInputWait, 0.2),
                               job(kInputBound, Category::kInputWait, 0.25)};
  EXPECT_EQ(share_out(said), (Roots{1, -1}));
  said = {job(kStepTimeChange, Category::kBackward, 0.2), job(kInputBound, Category::kInputWait, 0.25)};
  EXPECT_EQ(share_out(said), (Roots{-1, -1}));
}

TEST(Explanation, ADeviceThatRunsDryShowsWhatTheHostDoes) {
  std::vector<Finding> said = {job(kHostBound, Category::kForward, 0), job(kSyncStall, Category::kHostPause, 0.1),
                               job(kInputBound, Category::kInputWait, 0.3),
                               job(kCommBound, Category::kCommTransfer, 0.5)};
  EXPECT_EQ(share_out(said), (Roots{2, -1, -1, -1}));
  said = {job(kHostBound, Category::kForward, 0), job(kCommBound, Category::kCommTransfer, 0.5)};
  EXPECT_EQ(share_out(said), (Roots{-1, -1}));  // nothing that is known explains it
}

TEST(Explanation, SymptomsStandUnderTheirRoot) {
  std::vector<Finding> said = {job(kStepTimeChange, Category::kInputWait, 0.25),
                               job(kInputBound, Category::kInputWait, 0.21), job(kH2dBound, Category::kH2d, 0.5)};
  settle_findings(said);
  ASSERT_EQ(said[0].kind, kH2dBound);
  ASSERT_EQ(said[1].kind, kInputBound);
  ASSERT_EQ(said[2].kind, kStepTimeChange);
  EXPECT_EQ(said[2].explained_by, "f2");
  EXPECT_EQ(said[1].explained_by, "");
  EXPECT_EQ(said[1].id, "f2");
}

RC_GTEST_PROP(Explanation, RootsNeverOwnMoreThanTheRun, ()) {
  std::vector<Finding> said;
  const int count = *rc::gen::inRange(0, 12);
  for (int i = 0; i < count; ++i) {
    const auto kind = static_cast<FindingKind>(*rc::gen::inRange(1, static_cast<int>(kOther)));
    const auto phase = static_cast<Category>(*rc::gen::inRange(0, static_cast<int>(kCategoryCount)));
    Finding f = ranks(kind, {*rc::gen::inRange(0, 3)}, phase, 0.01 * *rc::gen::inRange(0, 101));
    f.job_scope = *rc::gen::arbitrary<bool>();
    if (f.job_scope) f.ranks.clear();
    said.push_back(f);
  }
  settle_findings(said);
  double owned = 0;
  for (size_t i = 0; i < said.size(); ++i) {
    const Finding& f = said[i];
    if (f.explained_by.empty()) {
      if (urgency_of(f.kind.id()) == Urgency::kFault) owned += f.kind == kLateStart ? 0 : f.cost_share;
      continue;
    }
    const auto root = std::find_if(said.begin(), said.end(), [&](const Finding& r) { return r.id == f.explained_by; });
    RC_ASSERT(root != said.end());
    RC_ASSERT(root->explained_by.empty());
    RC_ASSERT(root - said.begin() < static_cast<long>(i));
  }
  RC_ASSERT(owned <= 1 + 1e-9);
}

}  // namespace
}  // namespace stepscope
