// examples/cpp_loop runs, and what it marks is what its README says.
#include <gtest/gtest.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "blackbox/ring_reader.h"
#include "scratch_folder.h"

namespace stepscope {
namespace {

struct Outcome {
  std::vector<std::string> lines;  // sorted: the ranks print in any order
  int status;
};

Outcome run(const std::string& environment, const std::string& arguments) {
  const std::string command =
      "env -u RANK -u STEPSCOPE_SHM " + environment + " " SS_BINARY_DIR "/examples/cpp_loop/cpp_loop " + arguments;
  Outcome outcome;
  FILE* pipe = ::popen(command.c_str(), "r");
  char line[256];
  while (::fgets(line, sizeof line, pipe)) outcome.lines.push_back(line);
  outcome.status = ::pclose(pipe);
  std::sort(outcome.lines.begin(), outcome.lines.end());
  return outcome;
}

TEST(CppLoop, OutputIsTheSameWithAndWithoutTheRecorder) {
  testing::ScratchFolder folder("/dev/shm");
  const Outcome off = run("", "--steps 30");
  const Outcome on = run("STEPSCOPE_SHM=" + folder.path(), "--steps 30");
  EXPECT_EQ(off.status, 0);
  EXPECT_EQ(on.status, 0);
  ASSERT_EQ(off.lines.size(), 2u);
  EXPECT_EQ(on.lines, off.lines);
}

TEST(CppLoop, RingsTellTheSlowRank) {
  testing::ScratchFolder folder("/dev/shm");
  constexpr int kSteps = 20;
  ASSERT_EQ(run("STEPSCOPE_SHM=" + folder.path(), "--ranks 3 --steps 20 --slow-rank 2 --slow-ms 10").status, 0);
  std::map<int, double> own_ms, wait_ms;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    auto reader = blackbox::RingReader::open(entry.path());
    ASSERT_TRUE(reader.has_value()) << reader.error().message;
    const auto id = reader->identity();
    EXPECT_EQ(id.world_size, 3);
    EXPECT_EQ(id.life, blackbox::kLifeTeardown | blackbox::kLifeClosed);
    std::vector<blackbox::Record> records;
    reader->read(records, 10'000, 1, true);
    EXPECT_EQ(records.size(), size_t{kSteps * 12});
    uint64_t begin = 0, own_end = 0;
    int steps = 0;
    for (const auto& r : records) {
      if (r.kind == pack_kind(Kind::kBackward, Edge::kBegin)) begin = r.time_ns;
      if (r.kind == pack_kind(Kind::kBackwardOwn, Edge::kMark)) own_end = r.time_ns;
      if (r.kind == pack_kind(Kind::kBackward, Edge::kEnd)) {
        own_ms[id.rank] += static_cast<double>(own_end - begin) / 1e6;
        wait_ms[id.rank] += static_cast<double>(r.time_ns - own_end) / 1e6;
      }
      steps += r.kind == pack_kind(Kind::kStep, Edge::kEnd) && r.flags == kStepBoundary;
    }
    EXPECT_EQ(steps, kSteps);
  }
  ASSERT_EQ(own_ms.size(), 3u) << "one ring per rank";
  EXPECT_GE(own_ms[2], kSteps * 9.0);
  EXPECT_GT(own_ms[2], own_ms[0]);
  EXPECT_GT(own_ms[2], own_ms[1]);
  EXPECT_GT(wait_ms[0], wait_ms[2]) << "the others wait for the slow rank";
}

}  // namespace
}  // namespace stepscope
