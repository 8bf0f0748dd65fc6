// The small parts of the agent: channel, configuration, run folder, marks, process watch, ring watch.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "agent/agent_config.h"
#include "agent/control_channel.h"
#include "agent/pid_watch.h"
#include "agent/ring_watch.h"
#include "agent/run_folder.h"
#include "agent/step_marks.h"
#include "agent/summary_requests.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace stepscope {
namespace {

class AgentParts : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stepscope-agent-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { [[maybe_unused]] const int rc = ::system(("rm -rf '" + root_ + "'").c_str()); }

  std::string root_;
};

TEST_F(AgentParts, SummaryRequestsAreTakenOnceAndOnlyByPlainNames) {
  SummaryRequests requests(root_);
  EXPECT_TRUE(requests.take().empty());
  for (const char* name : {"12-ab.ask", "no_token.ask", ".ask", "0.ring"}) {
    ASSERT_TRUE(write_file_atomic(path_join(root_, name), ""));
  }
  EXPECT_EQ(requests.take(), std::vector<std::string>{"12-ab"});
  EXPECT_TRUE(requests.take().empty());
  EXPECT_TRUE(is_file(path_join(root_, "0.ring")));
  requests.answer("12-ab", "{}");
  EXPECT_EQ(read_file(path_join(root_, "12-ab.answer")).value(), "{}");
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(write_file_atomic(path_join(root_, std::to_string(i) + ".ask"), ""));
  EXPECT_EQ(requests.take().size(), SummaryRequests::kMaxAnswered);
  EXPECT_TRUE(SummaryRequests("").take().empty());
}

TEST(ControlChannel, FramesArriveWholeAndInOrder) {
  auto pair = ControlChannel::make_pair();
  ASSERT_TRUE(pair);
  auto& [a, b] = *pair;
  const std::string large(100'000, 'x');
  EXPECT_TRUE(a.send(FrameType::kChild, "12"));
  EXPECT_TRUE(a.send(FrameType::kDone));
  EXPECT_TRUE(a.send(FrameType::kSummary, large));
  const auto frames = b.receive();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0].body, "12");
  EXPECT_EQ(frames[1].type, FrameType::kDone);
  EXPECT_EQ(frames[2].body, large);
  EXPECT_TRUE(b.open());
  a = ControlChannel(Fd());
  EXPECT_TRUE(b.receive().empty());
  EXPECT_FALSE(b.open());
  EXPECT_FALSE(b.send(FrameType::kDone));
}

TEST(ControlChannel, NeitherAFullSocketNorAnAbsurdLengthBlocks) {
  auto pair = ControlChannel::make_pair();
  auto& [a, b] = *pair;
  const std::string large(ControlChannel::kMaxBody, 'x');
  const uint64_t start_ns = monotonic_ns();
  EXPECT_FALSE(a.send(FrameType::kSummary, large));  // nobody reads
  EXPECT_LT(monotonic_ns() - start_ns, 5'000'000'000u);
  EXPECT_FALSE(a.open());
  auto other = ControlChannel::make_pair();
  ASSERT_EQ(::write(other->first.fd(), "T\xff\xff\xff\xff", 5), 5);
  EXPECT_TRUE(other->second.receive().empty());
  EXPECT_FALSE(other->second.open());
}

TEST(AgentConfig, SurvivesJson) {
  AgentConfig config;
  config.run_name = "r";
  config.command = {"python", "a \xff b", "\"", ""};
  config.nonce = "00ff";
  config.started_ns = 1ull << 60;
  config.thresholds = {{"x", 0.5}};
  config.notes = {"n"};
  config.attached = true;
  config.silence = {"batchnorm"};
  config.flops_per_step = 2e12;
  config.aggregator = "node-0:8800", config.node_secret = "0123456789abcdef";
  const auto back = AgentConfig::from_json(config.to_json());
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_TRUE(back->attached);
  EXPECT_EQ(back->silence, config.silence);
  EXPECT_EQ(back->flops_per_step, 2e12);
  EXPECT_EQ(back->aggregator + back->node_secret, config.aggregator + config.node_secret);
  EXPECT_EQ(back->command, (std::vector<std::string>{"python", "a \xef\xbf\xbd b", "\"", ""}));
  EXPECT_EQ(back->started_ns, config.started_ns);
  EXPECT_EQ(back->thresholds, config.thresholds);
  for (const char* text : {"", "{", "[]", "{\"run_name\": 3}"}) EXPECT_FALSE(AgentConfig::from_json(text)) << text;
}

TEST_F(AgentParts, RunFoldersNeverShareAName) {
  const std::string logs = root_ + "/a/logs";
  EXPECT_EQ(RunFolder::create(logs, "r")->path(), logs + "/r");
  EXPECT_EQ(RunFolder::create(logs, "r")->name(), "r-2");
  ASSERT_TRUE(write_file_atomic(logs + "/r-3", ""));
  EXPECT_EQ(RunFolder::create(logs, "r")->name(), "r-4");
  struct stat info;
  ASSERT_EQ(::stat((logs + "/r").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_FALSE(RunFolder::create("/proc/none", "r"));
}

TEST_F(AgentParts, AFolderThatIsGoneIsToldOnce) {
  RunFolder folder = *RunFolder::create(root_, "r");
  EXPECT_TRUE(folder.write("a", "x"));
  EXPECT_EQ(folder.first_error(), "");
  remove_flat_dir(folder.path());
  EXPECT_FALSE(folder.write("b", "x"));
  EXPECT_EQ(folder.first_error(), folder.path() + "/b: No such file or directory");
  EXPECT_FALSE(folder.write("c", "x"));
  EXPECT_EQ(folder.first_error(), folder.path() + "/b: No such file or directory");
  RunFolder none;
  EXPECT_FALSE(none.write("a", "x"));
  EXPECT_EQ(none.first_error(), "");
}

TEST_F(AgentParts, KeptRingsAreEqualSparseAndBounded) {
  RunFolder folder = *RunFolder::create(root_, "r");
  std::string ring(4 << 20, '\0');
  ring[5] = 'x';
  ring[3'000'000] = 'y';
  ring.resize(ring.size() - 17);
  ASSERT_TRUE(write_file_atomic(root_ + "/1.ring", ring));
  ASSERT_TRUE(write_file_atomic(root_ + "/2.ring", ring));
  EXPECT_EQ(folder.keep_rings({root_ + "/gone.ring", root_ + "/1.ring", root_ + "/2.ring"}, 5 << 20), 1u);
  const std::string copy = folder.path() + "/blackbox/1.ring";
  EXPECT_EQ(read_file(copy).value(), ring);
  struct stat info;
  ASSERT_EQ(::stat(copy.c_str(), &info), 0);
  EXPECT_LT(info.st_blocks * 512, 1 << 20);
  EXPECT_FALSE(is_file(folder.path() + "/blackbox/2.ring"));
}

TEST_F(AgentParts, ASuccessorFindsTheMarksOfItsPredecessor) {
  {
    StepMarks marks(root_);
    for (uint64_t steps = 1; steps < 50; ++steps) {
      for (int pid : {7, 8}) {
        StepMark mark;
        mark.pid = pid;
        mark.start_ticks = 100;
        mark.steps = steps;
        mark.last_step_ns = static_cast<int64_t>(steps * 10);
        marks.put(mark);
      }
    }
    EXPECT_FALSE(marks.predecessor(7, 100));  // its own are no predecessor's
  }
  StepMarks second(root_);
  ASSERT_TRUE(second.predecessor(7, 100));
  EXPECT_EQ(second.predecessor(7, 100)->steps, 49u);
  EXPECT_EQ(second.predecessor(8, 100)->last_step_ns, 490);
  EXPECT_FALSE(second.predecessor(7, 101));
  std::string bytes = read_file(root_ + "/agent.marks").value();
  bytes[20] ^= 1;  // half-written
  ASSERT_TRUE(write_file_atomic(root_ + "/agent.marks", bytes));
  StepMarks third(root_);
  EXPECT_FALSE(third.predecessor(7, 100));
  EXPECT_TRUE(third.predecessor(8, 100));
  StepMarks nowhere("");
  nowhere.put(StepMark{});
}

TEST(PidWatch, TellsDeathAndItsCauseOfAProcessThatIsNotOurChild) {
  SpawnRequest request;
  // The grandchild is reaped by its own parent, sooner or later: here when its standard input ends.
  request.argv = {"sh", "-c", "sh -c 'kill -STOP $$; exit 5' & echo $! >&3; wait $!; sleep 0.2"};
  request.environment = current_environment();
  request.signals = SignalState::current();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  request.daemon = true;
  request.keep_fd = ends[1];
  const SpawnResult child = spawn(request);
  ASSERT_EQ(child.error, 0);
  char text[32] = {};
  ASSERT_GT(::read(ends[0], text, sizeof text - 1), 0);
  const int pid = std::atoi(text);
  ProcStat stat;
  for (int i = 0; i < 500 && (stat = proc_stat(pid)).state != 'T'; ++i) ::usleep(10'000);
  ASSERT_EQ(stat.state, 'T');
  PidWatch watch(pid, stat.start_ticks);
  EXPECT_TRUE(watch.found());
  EXPECT_TRUE(watch.alive());
  EXPECT_FALSE(PidWatch(pid, stat.start_ticks + 1).found());  // the pid was given to somebody else
  ::kill(pid, SIGCONT);
  for (int i = 0; i < 500 && watch.alive(); ++i) ::usleep(1'000);
  EXPECT_FALSE(watch.alive());
  const auto status = watch.exit_status();
  ASSERT_TRUE(status);
  EXPECT_EQ(*status, 5 << 8);
  ::waitpid(child.pid, nullptr, 0);
  EXPECT_FALSE(PidWatch(pid, stat.start_ticks).found());
  ::close(ends[0]), ::close(ends[1]);
}

TEST_F(AgentParts, RingsAreReportedOnce) {
  RingWatch watch(root_);
  EXPECT_TRUE(watch.poll(1).empty());
  ASSERT_TRUE(write_file_atomic(root_ + "/a.ring", ""));
  ASSERT_TRUE(write_file_atomic(root_ + "/b.txt", ""));
  ASSERT_TRUE(write_file_atomic(root_ + "/.c.ring", ""));
  EXPECT_EQ(watch.poll(2), std::vector<std::string>{root_ + "/a.ring"});
  EXPECT_TRUE(watch.poll(3'000'000'000).empty());
  ASSERT_TRUE(write_file_atomic(root_ + "/d.ring", ""));
  EXPECT_EQ(watch.poll(3'000'000'001), std::vector<std::string>{root_ + "/d.ring"});
  // A name that is gone makes room, and is news when it comes again.
  ASSERT_EQ(::unlink((root_ + "/a.ring").c_str()), 0);
  EXPECT_TRUE(watch.poll(6'000'000'000).empty());
  ASSERT_TRUE(write_file_atomic(root_ + "/a.ring", ""));
  EXPECT_EQ(watch.poll(9'000'000'000), std::vector<std::string>{root_ + "/a.ring"});
  RingWatch none("");
  EXPECT_TRUE(none.poll(1).empty());
}

TEST_F(AgentParts, RingsThatCameAndWentAreNotCountedForEver) {
  RingWatch watch(root_);
  const size_t batch = RingWatch::kMaxRings / 4;
  for (size_t round = 0; round < 6; ++round) {
    std::vector<std::string> paths;
    for (size_t i = 0; i < batch; ++i) {
      paths.push_back(root_ + "/" + std::to_string(round) + "-" + std::to_string(i) + ".ring");
      ASSERT_TRUE(write_file_atomic(paths.back(), ""));
    }
    EXPECT_EQ(watch.poll((round + 1) * 2'000'000'000).size(), batch) << round;
    for (const std::string& path : paths) ::unlink(path.c_str());
  }
}

}  // namespace
}  // namespace stepscope
