#include "diagnose/logging_line.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

const CodeLine kLoop{104, "main", "/x/train.py"}, kEmit{83, "Tracking.emit", "/x/train.py"},
    kHandle{1028, "Handler.handle", "/usr/lib/python3.11/logging/__init__.py"};

void add(std::vector<CodeSample>& list, int count, Category phase, const std::vector<CodeLine>& frames) {
  CodeSample s;
  s.phase = phase, s.stay_ms = 50;
  s.take_frames(frames);
  list.insert(list.end(), static_cast<size_t>(count), s);
}

// Rank 0 is met in a handler of the program's own 30 times of 50, below the logger that called it; rank 1 never.
struct LoggingLine : ::testing::Test {
  LoggingLine() {
    add(samples[0], 30, Category::kUnattributed, {kEmit, kHandle, kLoop});
    for (const int rank : {0, 1}) add(samples[rank], 20, Category::kForward, {{12, "step", "/x/train.py"}});
    f = Finding::of(FindingKind::kStraggler);
    f.severity = Severity::kCrit;
    f.ranks = {0}, f.victims = {1};
    f.phase = "unattributed";
    f.title = "Rank 0 is late outside of the known phases; rank 1 waits 27 ms per step";
  }
  bool named() {
    name_logging(f, samples);
    return f.kind == FindingKind::kLoggingStall;
  }
  CodeSamples samples;
  Finding f;
};

TEST_F(LoggingLine, ARankThatIsLateInAHandler) {
  EXPECT_TRUE(named());
  EXPECT_EQ(f.title, "Rank 0 is late in logging; rank 1 waits 27 ms per step");
  add_line(f, samples);
  EXPECT_NE(f.title.find("train.py:83 Tracking.emit"), f.title.npos) << f.title;
}

TEST_F(LoggingLine, PausesOfOneRank) {
  f.kind = Finding::of(FindingKind::kPauseStraggler).kind;
  f.cause = Cause::kUserCode;
  f.title = "Rank 0 stops for 27 ms every 2.0 s and all others wait";
  EXPECT_TRUE(named());
  EXPECT_EQ(f.cause.id(), Cause::kNone);
  EXPECT_EQ(f.title, "Rank 0 stops for 27 ms every 2.0 s and all others wait, in logging");
}

TEST_F(LoggingLine, AFunctionOfTheProgramThatIsCalledLogIsNone) {
  samples[0].clear();
  add(samples[0], 30, Category::kUnattributed, {{9, "log", "/x/logging/__init__.py"}, kLoop});
  EXPECT_FALSE(named());
}

TEST_F(LoggingLine, MostOfTheTimeMustBeThere) {
  add(samples[0], 31, Category::kUnattributed, {{40, "augment", "/x/train.py"}, kLoop});
  EXPECT_FALSE(named());
}

TEST_F(LoggingLine, APeerThatLogsAsOftenDoesNotDiffer) {
  add(samples[1], 30, Category::kUnattributed, {kEmit, kHandle, kLoop});
  EXPECT_FALSE(named());
}

TEST_F(LoggingLine, ComputeIsNotLogging) {
  f.kind = Finding::of(FindingKind::kComputeStraggler).kind;
  f.phase = "forward";
  EXPECT_FALSE(named());
}

}  // namespace
}  // namespace stepscope
