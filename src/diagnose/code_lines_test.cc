// Lines of code: shares worked out by hand.
#include "diagnose/code_lines.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

Finding finding(FindingKind kind, std::string phase, std::vector<int> ranks = {}) {
  Finding f = Finding::of(kind);
  f.severity = Severity::kWarn;
  f.phase = std::move(phase);
  f.ranks = std::move(ranks);
  f.job_scope = f.ranks.empty();
  f.title = "T", f.action = "A";
  return f;
}

void add(std::vector<CodeSample>& list, int count, Category phase, std::vector<CodeLine> frames, double stay_ms = 50) {
  CodeSample s;
  s.phase = phase, s.stay_ms = stay_ms;
  s.take_frames(frames);
  list.insert(list.end(), static_cast<size_t>(count), s);
}

const CodeLine kLoop{61, "loop", "/x/train.py"}, kMain{90, "main", "/x/train.py"};
const CodeLine kMetric{30, "metric", "/x/metric.py"}, kMetric2{31, "metric", "/x/metric.py"};
const CodeLine kGet{171, "get", "/usr/lib/python3.11/queue.py"};

const Evidence* evidence(const Finding& f, std::string_view name) {
  for (const Evidence& e : f.evidence)
    if (e.name == name) return &e;
  return nullptr;
}

TEST(CodeLines, SharesAreOfThePhaseAlone) {
  CodeSamples samples;
  add(samples[0], 15, Category::kUnattributed, {kLoop, kMain});
  add(samples[0], 5, Category::kUnattributed, {kMetric, kMain});
  add(samples[0], 80, Category::kForward, {{12, "step", "/x/train.py"}});
  const auto line = line_of(finding(FindingKind::kWaitHeavy, "unattributed"), samples);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->place, "train.py:61 loop");
  EXPECT_DOUBLE_EQ(line->share, 0.75);
  EXPECT_NEAR(line->low, 0.531, 0.001);  // Wilson's, of 15 in 20
  EXPECT_EQ(line->samples, 20u);
  EXPECT_TRUE(line->decisive);
}

TEST(CodeLines, SmallOperatorsAreHandedOutByLinesOfForward) {
  CodeSamples samples;
  add(samples[0], 12, Category::kForward, {{33, "cell", "/x/model.py"}, kLoop});
  add(samples[0], 30, Category::kBackward, {kLoop});
  Finding f = finding(FindingKind::kHostBound, "forward");
  EXPECT_FALSE(line_scope(f));  // of a device that runs dry
  f.cause = Cause::kSmallOperators;
  add_line(f, samples);
  EXPECT_EQ(f.title, "T; 100 % of forward at model.py:33 cell");
}

TEST(CodeLines, FewSamplesSayNothing) {
  CodeSamples samples;
  add(samples[0], 7, Category::kUnattributed, {kLoop});
  Finding f = finding(FindingKind::kWaitHeavy, "unattributed");
  add_line(f, samples);
  EXPECT_TRUE(f.evidence.empty());
  EXPECT_EQ(f.title, "T");
  add(samples[0], 1, Category::kUnattributed, {kLoop});
  add_line(f, samples);
  EXPECT_EQ(f.title, "T; 100 % of it at train.py:61 loop");
  EXPECT_EQ(f.action, "See train.py:61 loop: do it less often, faster, or off the training thread");
  EXPECT_EQ(evidence(f, "line_share")->text, "train.py:61 loop");
  EXPECT_DOUBLE_EQ(*evidence(f, "line_share")->value, 1);
  EXPECT_DOUBLE_EQ(*evidence(f, "line_samples")->value, 8);
}

TEST(CodeLines, TheLibraryFunctionThatTheLineCallsIsNamedBehindItsWrappers) {
  CodeSamples samples;
  add(samples[0], 10, Category::kUnattributed,
      {{9, "recv", "/a/site-packages/torch/c10d.py"},
       {3067, "all_gather_object", "/a/site-packages/torch/distributed/distributed_c10d.py"},
       {83, "_exception_logger.<locals>.wrapper", "/a/site-packages/torch/distributed/c10d_logger.py"},
       kLoop});
  EXPECT_EQ(line_of(finding(FindingKind::kWaitHeavy, "unattributed"), samples)->place,
            "train.py:61 loop (distributed/distributed_c10d.py:3067 all_gather_object)");
}

TEST(CodeLines, AFunctionWhoseLinesShareTheTimeIsNamedAsAWhole) {
  CodeSamples samples;
  add(samples[0], 9, Category::kUnattributed, {kMetric, kMain});
  add(samples[0], 9, Category::kUnattributed, {kMetric2, kMain});
  add(samples[0], 2, Category::kUnattributed, {kLoop, kMain});
  const auto line = line_of(finding(FindingKind::kWaitHeavy, "unattributed"), samples);
  EXPECT_EQ(line->place, "metric.py:30–31 metric");
  EXPECT_DOUBLE_EQ(line->share, 0.9);
}

TEST(CodeLines, ManyFunctionsAreNamedByTheInnermostLineThatCallsThem) {
  CodeSamples samples;
  for (int i = 0; i < 10; ++i)
    add(samples[0], 2, Category::kUnattributed,
        {{5, "part" + std::to_string(i), "/x/parts.py"}, kMetric, kLoop, kMain});
  const auto line = line_of(finding(FindingKind::kWaitHeavy, "unattributed"), samples);
  EXPECT_EQ(line->place, "metric.py:30 metric");
  EXPECT_DOUBLE_EQ(line->share, 1);
}

TEST(CodeLines, WhatNoLineHasMostOfIsEvidenceOnly) {
  CodeSamples samples;
  add(samples[0], 8, Category::kUnattributed, {{1, "a", "/x/a.py"}});
  add(samples[0], 6, Category::kUnattributed, {{1, "b", "/x/b.py"}});
  add(samples[0], 6, Category::kUnattributed, {{1, "c", "/x/c.py"}});
  Finding f = finding(FindingKind::kWaitHeavy, "unattributed");
  add_line(f, samples);
  EXPECT_EQ(f.title, "T");
  EXPECT_EQ(f.action, "A");
  EXPECT_EQ(evidence(f, "line_share")->text, "a.py:1 a");
  EXPECT_DOUBLE_EQ(*evidence(f, "line_share")->value, 0.4);
}

// Both ranks walk through train.py:50; rank 1 alone through augment.py:40.
TEST(CodeLines, OfAStragglerTheLineIsWhereItDiffersFromAPeer) {
  const CodeLine forward{50, "loop", "/x/train.py"}, augment{40, "rotate", "/x/augment.py"};
  CodeSamples samples;
  add(samples[0], 20, Category::kForward, {forward});
  add(samples[0], 80, Category::kBackward, {{51, "loop", "/x/train.py"}});
  add(samples[1], 30, Category::kForward, {forward});
  add(samples[1], 50, Category::kForward, {augment, forward});
  add(samples[1], 20, Category::kBackward, {{51, "loop", "/x/train.py"}});
  Finding f = finding(FindingKind::kComputeStraggler, "forward", {1});
  const auto line = line_of(f, samples);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->place, "augment.py:40 rotate");
  EXPECT_NEAR(line->share, 0.5 / 0.6, 1e-9);  // of its time, of what it spends in forward beyond the peer
  EXPECT_DOUBLE_EQ(line->peer_share, 0);
  add_line(f, samples);
  EXPECT_EQ(f.title, "T; 83 % of its extra time at augment.py:40 rotate, where rank 0 never is");
  EXPECT_EQ(f.action, "See augment.py:40 rotate. A");
}

// The same work, slower: there is no line that differs.
TEST(CodeLines, ALineThatThePeerIsAtAsWellIsNoReason) {
  const CodeLine forward{50, "loop", "/x/train.py"};
  CodeSamples samples;
  add(samples[0], 50, Category::kForward, {forward});
  add(samples[0], 50, Category::kBackward, {{51, "loop", "/x/train.py"}});
  add(samples[1], 80, Category::kForward, {forward});
  add(samples[1], 20, Category::kBackward, {{51, "loop", "/x/train.py"}});
  Finding f = finding(FindingKind::kComputeStraggler, "forward", {1});
  add_line(f, samples);
  EXPECT_EQ(f.title, "T");
  EXPECT_FALSE(line_of(f, samples)->decisive);
}

TEST(CodeLines, WithoutAPeerAStragglersLineIsNotDecisive) {
  CodeSamples samples;
  add(samples[1], 80, Category::kForward, {kLoop});
  EXPECT_FALSE(line_of(finding(FindingKind::kComputeStraggler, "forward", {1}), samples)->decisive);
}

TEST(CodeLines, OfPausesOnlyStaysAsLongAsThePausesCount) {
  CodeSamples samples;
  add(samples[1], 60, Category::kUnattributed, {kLoop}, 2);
  add(samples[1], 10, Category::kUnattributed, {kMetric, kLoop}, 300);
  Finding f = finding(FindingKind::kPauseStraggler, "unattributed", {1});
  f.evidence.push_back({"pause_ms", 1, 300.0, {}, ""});
  add_line(f, samples);
  EXPECT_EQ(f.title, "T; 100 % of the pauses at metric.py:30 metric");

  // Half of the pause lies in other phases.
  for (CodeSample& s : samples[1]) s.stay_ms = std::min(s.stay_ms, 140.0);
  Finding spread = finding(FindingKind::kPauseStraggler, "unattributed", {1});
  spread.evidence.push_back({"pause_ms", 1, 300.0, {}, ""});
  spread.evidence.push_back({"unattributed_in_pauses_ms", 1, 150.0, {}, ""});
  add_line(spread, samples);
  EXPECT_EQ(spread.title, "T; 100 % of the pauses at metric.py:30 metric");
}

TEST(CodeLines, OfALoaderInTheProcessTheDatasetsLineIsNamedNotTheLoop) {
  const CodeLine next{733, "__next__", "/a/site-packages/torch/utils/data/dataloader.py"};
  CodeSamples samples;
  add(samples[0], 9, Category::kInputWait, {next, kLoop});
  Finding f = finding(FindingKind::kInputBound, "input_wait");
  EXPECT_FALSE(line_of(f, samples));
  add(samples[0], 27, Category::kInputWait, {{40, "__getitem__", "/x/data.py"}, next, kLoop});
  add_line(f, samples);
  EXPECT_EQ(f.title, "T; 75 % of it at data.py:40 __getitem__");
}

TEST(CodeLines, StallsOfBackwardAreNobodysLine) {
  CodeSamples samples;
  add(samples[0], 30, Category::kBackward, {{51, "loop", "/x/train.py"}});
  add(samples[0], 10, Category::kUnattributed, {kMetric, kLoop});
  for (CodeSample& s : samples[0]) s.stalled = true;
  EXPECT_EQ(line_of(finding(FindingKind::kCommBound, "comm_transfer"), samples)->place, "metric.py:30 metric");
  EXPECT_FALSE(line_of(finding(FindingKind::kWaitHeavy, "unattributed"), samples));
}

TEST(CodeLines, WhatALineDoesIsTold) {
  const auto how = [](const char* module, bool python, bool gil) {
    CodeSamples samples;
    add(samples[0], 10, Category::kUnattributed, {kLoop});
    for (CodeSample& s : samples[0]) s.module = module, s.in_interpreter = python, s.holds_gil = gil;
    return line_of(finding(FindingKind::kWaitHeavy, "unattributed"), samples)->how;
  };
  EXPECT_EQ(how("python3.11", true, true), "Python code");
  EXPECT_EQ(how("libc.so.6", false, false), "asleep or waiting");
  EXPECT_EQ(how("libc.so.6", false, true), "native code of libc.so.6");
  EXPECT_EQ(how("libtorch_cpu.so", false, true), "native code of libtorch_cpu.so");
}

// The training thread waits all over the program, and the other thread holds the GIL.
TEST(CodeLines, WhoHoldsTheGilWhileTheTrainingThreadWaitsIsNamed) {
  CodeSamples samples;
  for (int i = 0; i < 10; ++i)
    add(samples[1], 2, Category::kForward, {{10 + 10 * i, "f" + std::to_string(i), "/x/net.py"}});
  for (CodeSample& s : samples[1]) s.module = "libc.so.6";
  add(samples[1], 8, Category::kUnattributed, {{7, "crunch", "/x/data.py"}});
  add(samples[1], 2, Category::kUnattributed, {{9, "idle", "/x/data.py"}});
  for (size_t i = 20; i < 30; ++i) samples[1][i].beside = true, samples[1][i].holds_gil = i < 28;
  Finding f = finding(FindingKind::kComputeStraggler, "forward", {1});
  add_line(f, samples);
  EXPECT_EQ(f.title, "T; another thread holds the GIL, at data.py:7 crunch");
  EXPECT_EQ(f.cause, Cause::kGilContention);
  EXPECT_EQ(f.action, "Move what data.py:7 crunch does into another process: Python threads share one lock");
  Finding more = finding(FindingKind::kComputeStraggler, "forward", {1});
  more.cause = Cause::kMoreWork;  // rests on evidence of its own
  add_line(more, samples);
  EXPECT_EQ(more.cause, Cause::kMoreWork);
  EXPECT_DOUBLE_EQ(*evidence(f, "gil_holder_share")->value, 0.8);
  // It has the GIL as well as it may where the training thread runs.
  for (CodeSample& s : samples[1])
    if (!s.beside) s.in_interpreter = s.holds_gil = true, s.module = "python3.11";
  EXPECT_FALSE(gil_holder(f, samples));
}

TEST(CodeLines, KindsThatNoLineExplainsHaveNone) {
  CodeSamples samples;
  add(samples[0], 30, Category::kForward, {kGet, kLoop});
  EXPECT_FALSE(line_of(finding(FindingKind::kComputeBound, "forward"), samples));
  EXPECT_FALSE(line_of(finding(FindingKind::kMemoryCreep, ""), samples));
  Finding info = finding(FindingKind::kWaitHeavy, "unattributed");
  info.severity = Severity::kInfo;
  add(samples[0], 30, Category::kUnattributed, {kGet, kLoop});
  add_line(info, samples);
  EXPECT_TRUE(info.evidence.empty());
}

}  // namespace
}  // namespace stepscope
