#include "store/run_manifest.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>

#include "base/file.h"

namespace stepscope {
namespace {

class RunManifestTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/manifest_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::optional<RunManifest> read(const std::string& text) {
    EXPECT_TRUE(write_file_atomic(folder_ + "/manifest.json", text));
    return read_manifest(folder_);
  }
  std::string folder_;
};

TEST_F(RunManifestTest, IsReadWhole) {
  const auto m = read(
      R"({"name": "r", "started_at": "2026-01-02T03:04:05Z", "status": "crashed", "nonce": "n", "shm_dir": "/x",
          "stepscope": "1", "command": ["a", "b c"], "exit_code": 3, "interrupted_ns": 7,
          "ranks": [{"pid": 5, "exit_signal": 9, "end_ns": 11}, {"pid": 6, "exit_code": 2}, {"pid": 7}]})");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->name, "r");
  EXPECT_EQ(m->started_at, "2026-01-02T03:04:05Z");
  EXPECT_EQ(m->status, "crashed");
  EXPECT_EQ(m->nonce, "n");
  EXPECT_EQ(m->shm_dir, "/x");
  EXPECT_EQ(m->stepscope, "1");
  EXPECT_EQ(m->command, (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(m->exit_code, 3);
  EXPECT_EQ(m->interrupted_ns, 7);
  ASSERT_EQ(m->ended.size(), 3u);
  EXPECT_TRUE(WIFSIGNALED(*m->ended.at(5).wait_status));
  EXPECT_EQ(WTERMSIG(*m->ended.at(5).wait_status), 9);
  EXPECT_EQ(m->ended.at(5).end_ns, 11u);
  EXPECT_EQ(WEXITSTATUS(*m->ended.at(6).wait_status), 2);
  EXPECT_FALSE(m->ended.at(7).wait_status);
}

TEST_F(RunManifestTest, AValueOfAnotherTypeIsNotThere) {
  const auto m = read(
      R"({"name": 5, "status": "running", "command": [1, "a"], "exit_code": "3", "interrupted_ns": null,
          "ranks": [4, {"pid": "5"}, {"pid": 6, "exit_code": 1.5}]})");
  ASSERT_TRUE(m);
  EXPECT_EQ(m->name, "");
  EXPECT_EQ(m->status, "running");
  EXPECT_EQ(m->command, std::vector<std::string>{"a"});
  EXPECT_FALSE(m->exit_code);
  ASSERT_EQ(m->ended.size(), 1u);
  EXPECT_FALSE(m->ended.at(6).wait_status);
}

TEST_F(RunManifestTest, WhatIsNoObjectIsNone) {
  EXPECT_FALSE(read_manifest(folder_));
  EXPECT_FALSE(read("[]"));
  EXPECT_FALSE(read("{\"name\": \"cut o"));
  EXPECT_FALSE(read(""));
}

TEST_F(RunManifestTest, AnAgentIsAtWorkWhileItsSharedFolderIsThere) {
  RunManifest m{.status = "running"};
  EXPECT_FALSE(agent_is_at_work(m));
  m.shm_dir = folder_;
  EXPECT_TRUE(agent_is_at_work(m));
  m.shm_dir += "/gone";
  EXPECT_FALSE(agent_is_at_work(m));
  m.shm_dir = folder_, m.status = "completed";
  EXPECT_FALSE(agent_is_at_work(m));
}

}  // namespace
}  // namespace stepscope
