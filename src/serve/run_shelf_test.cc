#include "serve/run_shelf.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "../../tests/support/scratch_folder.h"
#include "base/file.h"

namespace stepscope {
namespace {

struct Shelf {
  Shelf() {
    for (const char* name : {"fast", "slow", "broken"}) add(name);
    (void)make_dirs(folder.file("no run"));
  }
  void add(const std::string& name, const std::string& manifest = "{\"status\": \"completed\"}") {
    (void)make_dirs(folder.file(name));
    (void)write_file_atomic(folder.file(name) + "/manifest.json", manifest);
  }
  RunShelf shelf() {
    return RunShelf({.logs = folder.path(), .load = [this](const std::string& path) { return load(path); }});
  }
  Result<LoadedSnapshot> load(const std::string& path) {
    ++loads;
    if (path.ends_with("broken")) return fail("broken: no summary");
    if (path.ends_with("slow"))
      while (!go_on) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    LoadedSnapshot loaded;
    loaded.snapshot.run.name = path.substr(path.rfind('/') + 1);
    loaded.snapshot.run.status = "running";
    return loaded;
  }

  testing::ScratchFolder folder;
  std::atomic<int> loads{0};
  std::atomic<bool> go_on{false};
};

TEST(RunShelf, ARunIsReadOnceUntilItChanges) {
  Shelf files;
  RunShelf shelf = files.shelf();
  const auto first = shelf.find("fast");
  ASSERT_TRUE(first) << first.error().message;
  // Its writer is gone without a last word.
  EXPECT_EQ(first->snapshot->run.status, "unfinished");
  EXPECT_FALSE(first->going_on);
  EXPECT_EQ(shelf.find("fast")->version, first->version);
  EXPECT_EQ(files.loads, 1);
  files.add("fast", "{\"status\": \"completed\", \"exit_code\": 0}");
  EXPECT_NE(shelf.find("fast")->version, first->version);
  EXPECT_EQ(files.loads, 2);
}

TEST(RunShelf, ARunThatTakesLongHoldsNobodyUpForLong) {
  Shelf files;
  RunShelf shelf = files.shelf();
  const auto begin = std::chrono::steady_clock::now();
  const auto none = shelf.find("slow");
  ASSERT_FALSE(none);
  EXPECT_TRUE(shelf.loading());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
  EXPECT_FALSE(shelf.find("fast"));  // it waits its turn
  EXPECT_TRUE(shelf.loading());
  files.go_on = true;
  // What nobody waited for is kept all the same, and the other one is read.
  for (int i = 0; i < 50 && !shelf.find("fast"); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(shelf.find("fast"));
  EXPECT_TRUE(shelf.find("slow"));
  EXPECT_EQ(files.loads, 2);
  EXPECT_FALSE(shelf.loading());
}

TEST(RunShelf, WhatIsNoRunIsNotOne) {
  Shelf files;
  RunShelf shelf = files.shelf();
  for (const char* name : {"no run", "nowhere", "", ".", "..", "../x", "fast/"}) {
    EXPECT_FALSE(shelf.find(name)) << name;
    EXPECT_FALSE(shelf.loading()) << name;
    EXPECT_EQ(shelf.version(name), 0u) << name;
  }
  EXPECT_EQ(shelf.find("broken").error().message, "broken: no summary");
  EXPECT_EQ(shelf.list().size(), 3u);
}

TEST(RunShelf, ARunOfAnotherAgentGoesOnWhileItsMemoryIsThere) {
  Shelf files;
  files.add("live", "{\"status\": \"running\", \"shm_dir\": \"" + files.folder.path() + "\"}");
  files.add("dead", R"({"status": "running", "shm_dir": "/nowhere/at/all"})");
  RunShelf shelf = files.shelf();
  EXPECT_TRUE(shelf.find("live")->going_on);
  EXPECT_FALSE(shelf.find("dead")->going_on);
  const auto list = shelf.list();
  EXPECT_EQ(list.front().name, "live");  // before all others
  EXPECT_EQ(list.front().status, "running");
}

}  // namespace
}  // namespace stepscope
