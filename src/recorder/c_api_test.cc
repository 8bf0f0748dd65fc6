#include "stepscope/stepscope.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <bit>
#include <map>

#include "blackbox/ring_reader.h"
#include "recorder/recorder.h"
#include "scratch_folder.h"

namespace stepscope {
namespace {

class CApiTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("RANK");
    ::setenv("STEPSCOPE_SHM", folder_.path().c_str(), 1);
  }
  void TearDown() override { stepscope_close(); }

  void read() {
    auto reader = blackbox::RingReader::open(recorder::path());
    ASSERT_TRUE(reader.has_value());
    records_.clear(), names_.clear();
    reader->read(records_, 1000, 1, true);
    reader->read_names(names_);
    identity_ = reader->identity();
  }

  testing::ScratchFolder folder_{"/dev/shm"};
  std::vector<blackbox::Record> records_;
  std::vector<blackbox::Name> names_;
  blackbox::Identity identity_;
};

TEST_F(CApiTest, OneStepOfALoop) {
  const stepscope_identity identity{2, 1, 4, 0};
  ASSERT_EQ(stepscope_open(&identity), 0) << stepscope_reason();
  EXPECT_EQ(stepscope_open(nullptr), 0);
  EXPECT_EQ(stepscope_active(), 1);
  EXPECT_STREQ(stepscope_reason(), "");
  stepscope_begin(STEPSCOPE_FETCH, 5), stepscope_end(STEPSCOPE_FETCH, 5);
  stepscope_begin(STEPSCOPE_FORWARD, 6), stepscope_end(STEPSCOPE_FORWARD, 6);
  stepscope_begin(STEPSCOPE_BACKWARD, 0), stepscope_backward_own_end(), stepscope_end(STEPSCOPE_BACKWARD, 0);
  stepscope_begin(STEPSCOPE_OPTIMIZER, 7), stepscope_end(STEPSCOPE_OPTIMIZER, 7);
  stepscope_step();
  read();
  const std::vector<uint16_t> expected = {
      pack_kind(Kind::kFetch, Edge::kBegin),    pack_kind(Kind::kFetch, Edge::kEnd),
      pack_kind(Kind::kForward, Edge::kBegin),  pack_kind(Kind::kForward, Edge::kEnd),
      pack_kind(Kind::kBackward, Edge::kBegin), pack_kind(Kind::kBackwardOwn, Edge::kMark),
      pack_kind(Kind::kBackward, Edge::kEnd),   pack_kind(Kind::kOptimizer, Edge::kBegin),
      pack_kind(Kind::kOptimizer, Edge::kEnd),  pack_kind(Kind::kStep, Edge::kEnd),
      pack_kind(Kind::kUsage, Edge::kMark)};
  std::vector<uint16_t> kinds;
  for (const auto& r : records_) kinds.push_back(r.kind);
  EXPECT_EQ(kinds, expected);
  EXPECT_EQ(records_[0].a, 5u);
  EXPECT_EQ(records_[2].flags, kForwardGrad | kForwardTraining);
  EXPECT_EQ(records_[4].a, 1u) << "a backward that accumulates gradients";
  EXPECT_EQ(records_[9].flags, kStepBoundary);
  EXPECT_EQ(identity_.rank, 2);
  EXPECT_EQ(identity_.world_size, 4);
  EXPECT_EQ(identity_.evidence, blackbox::kEvidenceInit | blackbox::kEvidenceOptimizer | blackbox::kEvidenceBackward);
  stepscope_close();
  EXPECT_EQ(stepscope_active(), 0);
  read();
  EXPECT_EQ(identity_.life, blackbox::kLifeTeardown | blackbox::kLifeClosed);
}

TEST_F(CApiTest, NamesAreWrittenOnce) {
  ASSERT_EQ(stepscope_open(nullptr), 0);
  for (int i = 0; i < 10; ++i) {
    stepscope_phase_begin("tokenize"), stepscope_phase_end("tokenize");
    stepscope_log("loss", 0.5 + i);
    stepscope_log("tokenize", 1);  // the same text as another kind of name
  }
  stepscope_phase_begin(nullptr);
  stepscope_phase_begin(std::string(100, 'n').c_str());
  read();
  std::multimap<std::pair<NameKind, std::string>, uint64_t> ids;
  for (const auto& n : names_) ids.insert({{n.kind, n.text}, n.id});
  EXPECT_EQ(ids.count({NameKind::kPhase, "tokenize"}), 1u);
  EXPECT_EQ(ids.count({NameKind::kValue, "tokenize"}), 1u);
  EXPECT_EQ(ids.count({NameKind::kValue, "loss"}), 1u);
  EXPECT_EQ(ids.count({NameKind::kPhase, std::string(63, 'n')}), 1u);
  EXPECT_EQ(records_[0].a, ids.find({NameKind::kPhase, "tokenize"})->second);
  EXPECT_EQ(records_[2].a, ids.find({NameKind::kValue, "loss"})->second);
  EXPECT_EQ(std::bit_cast<double>(records_[2].b), 0.5);
}

TEST_F(CApiTest, NamesAreWrittenAgainIntoANewRing) {
  ASSERT_EQ(stepscope_open(nullptr), 0);
  stepscope_log("loss", 1);
  stepscope_close();
  ASSERT_EQ(stepscope_open(nullptr), 0);
  stepscope_log("loss", 2);
  read();
  EXPECT_EQ(names_.size(), 1u);
}

TEST_F(CApiTest, ManyNamesFillTheRegionButStopNothing) {
  ASSERT_EQ(stepscope_open(nullptr), 0);
  for (int i = 0; i < 5000; ++i) stepscope_log(("value " + std::to_string(i)).c_str(), i);
  auto reader = blackbox::RingReader::open(recorder::path());
  EXPECT_GT(reader->names_dropped(), 0u);
  reader->read(records_, 10'000, 1);
  EXPECT_EQ(records_.size(), 5000u);
}

TEST_F(CApiTest, UnknownPhasesAreIgnored) {
  ASSERT_EQ(stepscope_open(nullptr), 0);
  for (int phase : {-1, 0, 1, 2, 3, 250, 1 << 20}) stepscope_begin(phase, 0), stepscope_end(phase, 0);
  read();
  EXPECT_TRUE(records_.empty());
}

TEST_F(CApiTest, OffSaysWhy) {
  ::unsetenv("STEPSCOPE_SHM");
  EXPECT_EQ(stepscope_open(nullptr), -1);
  EXPECT_EQ(stepscope_active(), 0);
  EXPECT_STRNE(stepscope_reason(), "");
  stepscope_begin(STEPSCOPE_FETCH, 0);
  stepscope_step();
  stepscope_log("loss", 1);
}

}  // namespace
}  // namespace stepscope
