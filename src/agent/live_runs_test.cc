#include "agent/live_runs.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/shm_folder.h"
#include "agent/summary_asker.h"
#include "agent/summary_requests.h"
#include "base/file.h"
#include "scratch_folder.h"

namespace stepscope {
namespace {

class LiveRuns : public ::testing::Test {
 protected:
  AgentConfig announced(const std::string& nonce, uint64_t started_ns, const std::string& name) {
    AgentConfig config;
    config.shm_dir = ShmFolder::path_of(nonce, root_.path());
    config.nonce = nonce;
    config.run_name = name;
    config.run_dir = "/logs/" + name;
    config.started_ns = started_ns;
    config.launcher_pid = ::getppid();
    EXPECT_TRUE(make_dirs(config.shm_dir));
    announce_run(config);
    return config;
  }

  testing::ScratchFolder root_;
};

TEST_F(LiveRuns, AreFoundNewestFirst) {
  announced("aa", 1, "older");
  announced("bb", 2, "newer");
  const std::vector<LiveRun> runs = live_runs(root_.path());
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "newer");
  EXPECT_EQ(runs[1].run_dir, "/logs/older");
  EXPECT_EQ(runs[0].agent_pid, ::getpid());
}

TEST_F(LiveRuns, EndWithTheirAgent) {
  const pid_t agent = ::fork();
  if (agent == 0) {
    announced("cc", 1, "gone");
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(agent, &status, 0);
  EXPECT_TRUE(is_file(path_join(ShmFolder::path_of("cc", root_.path()), "run.json")));
  EXPECT_TRUE(live_runs(root_.path()).empty());
}

TEST_F(LiveRuns, WhatCannotBeBelievedIsLeftOut) {
  const AgentConfig open = announced("dd", 1, "everybodys");
  ::chmod(open.shm_dir.c_str(), 0755);
  const AgentConfig strange = announced("ee", 1, "strange");
  for (const char* text : {"", "[]", "{\"agent_pid\":\"x\"}", "{\"agent_pid\":1,\"agent_start_ticks\":-1}"}) {
    ASSERT_TRUE(write_file_atomic(path_join(strange.shm_dir, "run.json"), text));
    EXPECT_TRUE(live_runs(root_.path()).empty()) << text;
  }
}

TEST_F(LiveRuns, AProcessIsOfItByItsEnvironmentOrItsRing) {
  const AgentConfig config = announced("ff00", 1, "run");
  const LiveRun run = live_runs(root_.path()).front();
  EXPECT_TRUE(has_process(run, ::getppid()));
  EXPECT_TRUE(has_process(run, ::getpid()));
  EXPECT_FALSE(has_process(run, 1));
  EXPECT_FALSE(has_process(run, 0));
  const pid_t child = ::fork();
  if (child == 0) {
    ::execle("/bin/sleep", "sleep", "30", nullptr,
             std::vector<char*>{const_cast<char*>("STEPSCOPE_NONCE=ff00"), nullptr}.data());
    ::_exit(127);
  }
  for (int i = 0; i < 200 && !has_process(run, child); ++i) ::usleep(10'000);
  EXPECT_TRUE(has_process(run, child));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_TRUE(write_file_atomic(path_join(config.shm_dir, "4242-00ff.ring"), ""));
  EXPECT_TRUE(has_process(run, 4242));
  EXPECT_FALSE(has_process(run, 424));
}

TEST_F(LiveRuns, AnAskerGetsItsAnswerAndLeavesNothing) {
  const AgentConfig config = announced("ab", 1, "asked");
  SummaryRequests requests(config.shm_dir);
  SummaryAsker asker(config.shm_dir);
  asker.ask();
  EXPECT_TRUE(asker.waits());
  EXPECT_FALSE(asker.take());
  const std::vector<std::string> tokens = requests.take();
  ASSERT_EQ(tokens.size(), 1u);
  requests.answer(tokens[0], "{}");
  EXPECT_EQ(asker.take(), "{}");
  asker.ask();
  asker.give_up();
  EXPECT_EQ(*list_dir(config.shm_dir), std::vector<std::string>{"run.json"});
}

}  // namespace
}  // namespace stepscope
