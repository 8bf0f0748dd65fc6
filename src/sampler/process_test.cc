#include "sampler/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "base/fd.h"
#include "child.h"
#include "recorded_tree.h"
#include "sampler/process_glance.h"
#include "sampler/process_tree.h"

namespace stepscope {
namespace {

using testing::RecordedTree;
constexpr uint64_t kSecond = 1'000'000'000;

struct Followed {
  explicit Followed(const RecordedTree& tree, int pid = 701, uint64_t start = 0)
      : proc(::open(tree.roots().proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), process(pid, start) {}
  bool sample(uint64_t now) { return process.sample(proc.get(), now, file); }
  Fd proc;
  SmallFile file;
  Process process;
};

TEST(Process, ReadsLevelsAtOnceAndRatesFromTheSecondSample) {
  RecordedTree tree("v1");
  Followed f(tree);
  ASSERT_TRUE(f.sample(10 * kSecond));
  const ProcessSample& s = f.process.last();
  EXPECT_EQ(s.stat.state, 'R');
  EXPECT_EQ(s.stat.threads, 3);
  EXPECT_EQ(f.process.start_ticks(), 576680u);
  EXPECT_DOUBLE_EQ(s.status.anon_bytes, 844692.0 * 1024);
  EXPECT_DOUBLE_EQ(s.status.held_bytes(), (844692.0 + 88) * 1024);
  EXPECT_EQ(s.status.affinity_cores, 2);
  EXPECT_FALSE(s.cpu_cores.has_value());
  EXPECT_FALSE(s.run_delay_share.has_value());

  ASSERT_TRUE(tree.edit("proc/701/stat", " 710 112 ", " 760 122 "));  // 60 ticks in two seconds
  tree.write("proc/701/schedstat", "8791739890 10396122210 2900\n");
  ASSERT_TRUE(tree.set("proc/701/status", "nonvoluntary_ctxt_switches:", "\t2590"));
  ASSERT_TRUE(tree.set("proc/701/io", "read_bytes: ", "31039488"));
  ASSERT_TRUE(f.sample(12 * kSecond));
  EXPECT_NEAR(*f.process.last().cpu_cores, 0.3, 1e-9);
  EXPECT_NEAR(*f.process.last().run_delay_share, 0.3, 1e-9);
  EXPECT_NEAR(*f.process.last().involuntary_per_s, 50, 1e-9);
  EXPECT_NEAR(*f.process.last().voluntary_per_s, 0, 1e-9);
  EXPECT_NEAR(*f.process.last().read_bytes_per_s, 524288, 1e-6);
}

TEST(Process, VanishedZombieAndReusedPidsAreGone) {
  {
    RecordedTree tree("v1");
    Followed f(tree);
    ASSERT_TRUE(f.sample(kSecond));
    tree.remove("proc/701");
    EXPECT_FALSE(f.sample(2 * kSecond));
    EXPECT_FALSE(f.process.alive());
  }
  {
    RecordedTree tree("v1");
    Followed f(tree);
    ASSERT_TRUE(tree.edit("proc/701/stat", "(python3) R", "(python3) Z"));
    EXPECT_FALSE(f.sample(kSecond));
  }
  {
    RecordedTree tree("v1");
    Followed f(tree);
    ASSERT_TRUE(f.sample(kSecond));
    ASSERT_TRUE(tree.edit("proc/701/stat", " 576680 ", " 576681 "));  // another process under this pid
    EXPECT_FALSE(f.sample(2 * kSecond));
  }
  RecordedTree tree("v1");
  EXPECT_FALSE(Followed(tree, 701, 12345).sample(kSecond));
}

TEST(Process, OneUnreadableSampleDoesNotEndIt) {
  RecordedTree tree("v1");
  Followed f(tree);
  ASSERT_TRUE(f.sample(kSecond));
  const std::string stat = tree.read("proc/701/stat");
  tree.write("proc/701/stat", "garbage");
  EXPECT_TRUE(f.sample(2 * kSecond));
  tree.write("proc/701/stat", stat);
  EXPECT_TRUE(f.sample(3 * kSecond));
  EXPECT_NEAR(*f.process.last().cpu_cores, 0, 1e-9);
}

TEST(Process, WhatMayNotBeReadIsAbsentNotZero) {
  RecordedTree tree("v1");
  for (const char* name : {"io", "schedstat", "smaps_rollup", "wchan"}) tree.remove(std::string("proc/701/") + name);
  Followed f(tree);
  ASSERT_TRUE(f.sample(kSecond));
  ASSERT_TRUE(f.sample(2 * kSecond));
  EXPECT_FALSE(f.process.last().run_delay_share.has_value());
  EXPECT_FALSE(f.process.last().rchar_per_s.has_value());
  EXPECT_FALSE(f.process.read_maps(f.proc.get(), 2 * kSecond, f.file));
  EXPECT_FALSE(f.process.last_maps().has_value());
  EXPECT_EQ(f.process.wait_channel(f.proc.get(), f.file), "");
}

TEST(Process, MapsTellPrivateFromSharedAndKeepTheFirstReading) {
  RecordedTree tree("v1");
  Followed f(tree, 702);
  ASSERT_TRUE(f.sample(kSecond));
  ASSERT_TRUE(f.process.read_maps(f.proc.get(), kSecond, f.file));
  EXPECT_DOUBLE_EQ(f.process.last_maps()->uss_bytes, 53376.0 * 1024);
  EXPECT_DOUBLE_EQ(f.process.last_maps()->pss_bytes, 207445.0 * 1024);
  EXPECT_DOUBLE_EQ(f.process.last_maps()->shared_anon_bytes, 435124.0 * 1024);
  ASSERT_TRUE(tree.set("proc/702/smaps_rollup", "Private_Dirty:", "     93376 kB"));
  ASSERT_TRUE(f.process.read_maps(f.proc.get(), 11 * kSecond, f.file));
  EXPECT_DOUBLE_EQ(f.process.last_maps()->uss_bytes - f.process.first_maps()->uss_bytes, 40000.0 * 1024);
  EXPECT_EQ(f.process.maps_readings(), 2);
  EXPECT_GE(f.process.maps_due_ns(10 * kSecond), 21 * kSecond);
}

TEST(Process, NamesWithBracketsAndSpacesDoNotShiftFields) {
  const auto s = parse_process_stat("12 (a) b (c) S 7 12 12 0 -1 0 1 2 3 4 50 60 0 0 20 0 9 0 777 1 2 3");
  ASSERT_TRUE(s.has_value());
  EXPECT_STREQ(s->name.data(), "a) b (c");
  EXPECT_EQ(s->ppid, 7);
  EXPECT_EQ(s->cpu_ticks, 110u);
  EXPECT_EQ(s->threads, 9);
  EXPECT_EQ(s->start_ticks, 777u);
  EXPECT_EQ(s->start_stack, 0u);
  EXPECT_FALSE(parse_process_stat("12 (a) S 7 12").has_value());
  EXPECT_FALSE(parse_process_stat("12 (a)").has_value());
  EXPECT_FALSE(parse_process_stat("").has_value());
}

TEST(Process, KernelThreadsHaveNoMemory) {
  EXPECT_FALSE(parse_process_status("Name:\tkthreadd\nPid:\t2\n").has_value());
}

RC_GTEST_PROP(Process, ParsersTakeAnyBytes, (const std::string& text)) {
  (void)parse_process_stat("1 (x) S " + text);
  (void)parse_process_stat(text);
  (void)parse_process_status("VmRSS:" + text);
  (void)parse_process_io(text);
  (void)parse_smaps_rollup("Rss: " + text);
}

TEST(ProcessGlance, ALockThatAllThreadsWaitFor) {
  std::atomic<int> word{0};
  const auto start = [&](bool and_another) {
    return testing::start_child([&word, and_another] {
      std::thread other([and_another] {
        while (and_another) ::usleep(1000);
      });
      ::syscall(SYS_futex, &word, 0 /* FUTEX_WAIT */, 0, nullptr, nullptr, 0);
      return 0;
    });
  };
  const int stuck = start(false), lively = start(true);
  std::string lock;
  for (int i = 0; i < 200 && lock.empty(); ++i) ::usleep(10'000), lock = lock_that_all_wait_for(stuck);
  const std::string none = lock_that_all_wait_for(lively);
  for (const int pid : {stuck, lively}) ::kill(pid, SIGKILL), testing::wait_for(pid);
  if (lock.empty()) GTEST_SKIP() << "the kernel does not tell where threads sleep";
  EXPECT_NE(lock.find("futex"), lock.npos);
  EXPECT_EQ(none, "");
  EXPECT_EQ(lock_that_all_wait_for(stuck), "") << "it is gone";
}

TEST(ProcessTree, FindsWhatDescendsFromARootAndSeesNewcomers) {
  RecordedTree tree("v1");
  ProcessTree search(tree.roots().proc);
  SmallFile file;
  auto pids = [&](int excluded = -1) {
    std::vector<int> out;
    for (const auto& d : search.refresh({701}, excluded, file)) out.push_back(d.pid);
    return out;
  };
  EXPECT_EQ(pids(), (std::vector<int>{702, 703}));
  tree.write("proc/720/stat", "720 (grandchild) S 703 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0");
  tree.write("proc/721/stat", "721 (stranger) S 700 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0");
  EXPECT_EQ(pids(), (std::vector<int>{702, 703, 720}));
  tree.remove("proc/702");
  EXPECT_EQ(pids(), (std::vector<int>{703, 720}));
  EXPECT_EQ(pids(703), (std::vector<int>{}));  // an observer and what it started are not the rank's
}

TEST(ProcessTree, TheNearestRootOwnsAProcess) {
  RecordedTree tree("v1");
  ProcessTree search(tree.roots().proc);
  SmallFile file;
  const auto& found = search.refresh({700, 701}, -1, file);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].root, 701);
}

TEST(ProcessTree, LoopsOfParentsEnd) {
  RecordedTree tree("");
  tree.write("proc/10/stat", "10 (a) S 11 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0");
  tree.write("proc/11/stat", "11 (b) S 10 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0");
  ProcessTree search(tree.roots().proc);
  SmallFile file;
  EXPECT_TRUE(search.refresh({99}, -1, file).empty());
}

}  // namespace
}  // namespace stepscope
