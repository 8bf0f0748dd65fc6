#include "sampler/sampler.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "fake_nvml_api.h"
#include "recorded_tree.h"

namespace stepscope {
namespace {

using testing::FakeNvml;
using testing::RecordedTree;
constexpr uint64_t kSecond = 1'000'000'000;
constexpr double kKiB = 1024;

SamplerOptions options_of(const RecordedTree& tree) {
  SamplerOptions o;
  o.roots = tree.roots();
  o.devices = false;
  return o;
}

TEST(Sampler, FollowsARankAndItsLoaderWorkers) {
  const RecordedTree tree("v1");
  Sampler sampler(options_of(tree));
  sampler.add_rank(3, 701, 576680);
  sampler.set_steps(3, 40);
  for (uint64_t i = 1; i <= 3; ++i) sampler.sample(i * kSecond);
  const HostFacts f = sampler.facts();
  EXPECT_EQ(f.samples, 3u);
  ASSERT_EQ(f.ranks.size(), 1u);
  const RankProcess& r = f.ranks[0];
  EXPECT_EQ(r.rank, 3);
  EXPECT_EQ(r.pid, 701);
  EXPECT_TRUE(r.alive);
  EXPECT_DOUBLE_EQ(r.workers.last, 2);
  EXPECT_DOUBLE_EQ(r.steps.last, 40);
  ASSERT_EQ(r.steps.points.size(), r.held_bytes.points.size());
  EXPECT_DOUBLE_EQ(r.held_bytes.last, (844692 + 88) * kKiB);
  EXPECT_EQ(r.uss_bytes.count, 1u);  // three seconds: the maps are read once
  EXPECT_EQ(r.worker_uss_bytes.count, 1u);
  EXPECT_GT(r.worker_uss_bytes.last, 100e6);
  EXPECT_EQ(r.affinity_cores, 2);
  ASSERT_EQ(r.cgroup, 0);
  EXPECT_EQ(f.cgroups.at(0).path, "/jobs/train");
}

TEST(Sampler, DecidesItselfWhatIsDue) {
  const RecordedTree tree("v1");
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 0);
  for (int i = 0; i <= 100; ++i) sampler.sample(kSecond + static_cast<uint64_t>(i) * kSecond / 10);  // ten seconds
  EXPECT_EQ(sampler.facts().samples, 11u);
  EXPECT_EQ(sampler.next_due_ns(), 12 * kSecond);
}

TEST(Sampler, MemoryIsSampledFasterInTheFirstMinute) {
  const RecordedTree tree("v1");
  SamplerOptions options = options_of(tree);
  options.early_memory_interval_ns = kSecond / 5;
  Sampler sampler(options);
  sampler.add_rank(0, 701, 0);
  for (int i = 0; i <= 700; ++i) sampler.sample(kSecond + static_cast<uint64_t>(i) * kSecond / 10);  // 70 s
  const HostFacts facts = sampler.facts();
  EXPECT_EQ(facts.samples, 71u);
  EXPECT_EQ(facts.ranks[0].threads.count, 71u) << "the rest as often as ever";
  EXPECT_EQ(facts.ranks[0].held_bytes.count, 60 * 5 + 11u);
}

TEST(Sampler, MemoryMapsAreNeverReadMoreOftenThanEveryTenSeconds) {
  const RecordedTree tree("v1");
  SamplerOptions o = options_of(tree);
  o.maps_interval_ns = 1;  // raised to ten seconds
  Sampler sampler(o);
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 61; ++i) sampler.sample(i * kSecond);
  const HostFacts f = sampler.facts();
  const auto& points = f.ranks[0].uss_bytes.points;
  ASSERT_GE(points.size(), 5u);
  EXPECT_LE(points.size(), 7u);
  for (size_t i = 1; i < points.size(); ++i) EXPECT_GE(points[i].time_ns - points[i - 1].time_ns, 10'000'000'000);
}

TEST(Sampler, GrowthOfWorkersIsTheirFirstReadingAgainstTheNewest) {
  RecordedTree tree("v1");
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 5; ++i) sampler.sample(i * kSecond);
  for (const char* name : {"proc/702/smaps_rollup", "proc/703/smaps_rollup"}) {
    ASSERT_TRUE(tree.set(name, "Private_Dirty:", "     153376 kB"));
    ASSERT_TRUE(tree.set(name, "Shared_Dirty:", "      335124 kB"));
  }
  for (uint64_t i = 6; i <= 25; ++i) sampler.sample(i * kSecond);
  const WorkerGrowth g = sampler.facts().ranks[0].worker_growth;
  EXPECT_EQ(g.workers, 2);
  EXPECT_NEAR(g.uss_last_bytes - g.uss_first_bytes, 2 * 100000 * kKiB, 1e6);
  EXPECT_DOUBLE_EQ(g.rss_last_bytes, g.rss_first_bytes);
  EXPECT_NEAR(g.shared_anon_first_bytes - g.shared_anon_last_bytes, 2 * 100000 * kKiB, 1e6);
  EXPECT_GE(g.seconds, 10);
}

// The last sample of a job comes when its loader has ended its workers.
TEST(Sampler, WorkersThatAreGoneKeepTheirTime) {
  RecordedTree tree("v1");
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 3; ++i) sampler.sample(i * kSecond);
  const int64_t since_ns = sampler.facts().ranks[0].workers_since_ns;
  EXPECT_EQ(since_ns, static_cast<int64_t>(kSecond));
  tree.remove("proc/702");
  sampler.sample(4 * kSecond);
  EXPECT_EQ(sampler.facts().ranks[0].workers_since_ns, static_cast<int64_t>(4 * kSecond)) << "another set";
  tree.remove("proc/703");
  for (uint64_t i = 5; i <= 8; ++i) sampler.sample(i * kSecond);
  EXPECT_EQ(sampler.facts().ranks[0].workers.last, 0);
  EXPECT_EQ(sampler.facts().ranks[0].workers_since_ns, static_cast<int64_t>(4 * kSecond));
}

TEST(Sampler, AChildWithAnotherProgramIsNoForkedWorker) {
  RecordedTree tree("v1");
  ASSERT_TRUE(tree.edit("proc/703/stat", " 140721295554992 ", " 140000000000000 "));
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 25; ++i) sampler.sample(i * kSecond);
  EXPECT_EQ(sampler.facts().ranks[0].worker_growth.workers, 1);
}

TEST(Sampler, ARankThatVanishesKeepsItsFacts) {
  RecordedTree tree("v1");
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 3; ++i) sampler.sample(i * kSecond);
  tree.remove("proc/701");
  for (uint64_t i = 4; i <= 6; ++i) sampler.sample(i * kSecond);
  const HostFacts f = sampler.facts();
  EXPECT_FALSE(f.ranks.at(0).alive);
  EXPECT_EQ(f.ranks[0].rss_bytes.count, 3u);
  EXPECT_TRUE(f.unavailable.empty());
  EXPECT_EQ(f.samples, 6u);  // the host goes on
}

TEST(Sampler, ARestartedRankGoesOnWithItsSeries) {
  RecordedTree tree("v1");
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 3; ++i) sampler.sample(i * kSecond);
  sampler.remove_rank(0);
  sampler.add_rank(0, 702, 0);
  for (uint64_t i = 4; i <= 6; ++i) sampler.sample(i * kSecond);
  const RankProcess r = sampler.facts().ranks.at(0);
  EXPECT_EQ(r.pid, 702);
  EXPECT_EQ(r.rss_bytes.count, 6u);
  ASSERT_FALSE(r.cpu_cores.empty());
  EXPECT_GE(r.cpu_cores.min, 0);  // no rate from one process to the other
}

TEST(Sampler, AWrongStartTimeIsAnotherProcess) {
  const RecordedTree tree("v1");
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 1);
  sampler.sample(kSecond);
  EXPECT_FALSE(sampler.facts().ranks.at(0).alive);
  EXPECT_TRUE(sampler.facts().ranks[0].rss_bytes.empty());
}

TEST(Sampler, TheNumberOfProcessesIsBoundedAndTheRestCounted) {
  RecordedTree tree("v1");
  const std::string stat = tree.read("proc/702/stat");
  for (int pid = 1000; pid < 1050; ++pid) {
    tree.write("proc/" + std::to_string(pid) + "/stat", std::to_string(pid) + stat.substr(3));
  }
  SamplerOptions o = options_of(tree);
  o.max_processes = 10;
  Sampler sampler(o);
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 3; ++i) sampler.sample(i * kSecond);
  const HostFacts f = sampler.facts();
  EXPECT_DOUBLE_EQ(f.ranks[0].workers.last, 9);
  EXPECT_EQ(f.processes_not_followed, 43u);
}

TEST(Sampler, OneCgroupIsSharedByItsRanks) {
  const RecordedTree tree("v2");
  Sampler sampler(options_of(tree));
  sampler.add_rank(0, 701, 0);
  sampler.add_rank(1, 702, 0);
  sampler.sample(kSecond);
  const HostFacts f = sampler.facts();
  ASSERT_EQ(f.cgroups.size(), 1u);
  EXPECT_EQ(f.ranks[0].cgroup, 0);
  EXPECT_EQ(f.ranks[1].cgroup, 0);
  EXPECT_DOUBLE_EQ(*f.cgroups[0].memory_limit_bytes, 8589934592.0);
}

TEST(Sampler, GpusAreSampledOnceARankHasOpenedCuda) {
  RecordedTree tree("v1");
  auto nvml = std::make_shared<FakeNvml>(2);
  SamplerOptions o = options_of(tree);
  o.devices = true;
  o.nvml = nvml;
  Sampler sampler(o);
  using namespace std::string_literals;
  tree.write("proc/701/environ", "RANK=0\0LOCAL_RANK=1\0"s);
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 8; ++i) sampler.sample(i * kSecond);
  EXPECT_TRUE(nvml->reads.empty());  // a CPU job never wakes a GPU
  std::filesystem::create_directories(tree.path("proc/701/fd"));
  std::filesystem::create_symlink("/dev/nvidia-uvm", tree.path("proc/701/fd/9"));
  for (uint64_t i = 9; i <= 20; ++i) sampler.sample(i * kSecond);
  const HostFacts f = sampler.facts();
  ASSERT_EQ(f.devices.size(), 1u);
  EXPECT_EQ(f.devices[0].index, 1);
  EXPECT_EQ(f.ranks[0].devices, std::vector<int>{0});
}

TEST(Sampler, MemoryStaysBoundedOverADay) {
  const RecordedTree tree("v1");
  SamplerOptions o = options_of(tree);
  o.series_capacity = 64;
  Sampler sampler(o);
  sampler.add_rank(0, 701, 0);
  for (uint64_t i = 1; i <= 3000; ++i) sampler.sample(i * 30 * kSecond);
  const HostFacts f = sampler.facts();
  EXPECT_LE(f.ranks[0].rss_bytes.points.size(), 64u);
  EXPECT_EQ(f.ranks[0].rss_bytes.count, 3000u);
}

// A child that takes memory step by step when told; ended by the destructor.
class Glutton {
 public:
  Glutton() {
    EXPECT_EQ(::pipe(to_), 0);
    EXPECT_EQ(::pipe(from_), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      char c = 0;
      while (::read(to_[0], &c, 1) == 1) {
        const size_t bytes = static_cast<size_t>(c) << 20;
        void* p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) ::_exit(1);
        std::memset(p, 1, bytes);
        (void)!::write(from_[1], &c, 1);
      }
      ::_exit(0);
    }
  }
  ~Glutton() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    for (int fd : {to_[0], to_[1], from_[0], from_[1]}) ::close(fd);
  }
  void take_mib(char n) {
    ASSERT_EQ(::write(to_[1], &n, 1), 1);
    ASSERT_EQ(::read(from_[0], &n, 1), 1);
  }
  int pid() const { return pid_; }

 private:
  int pid_ = 0, to_[2] = {}, from_[2] = {};
};

TEST(SamplerLive, SeesItsOwnHostAndAChildThatAllocates) {
  Glutton child;
  SamplerOptions o;
  o.devices = false;
  Sampler sampler(o);
  sampler.add_rank(0, child.pid(), 0);
  // Time is a parameter: a second goes by in no time. Only rates are wrong then.
  uint64_t now = monotonic_ns();
  for (int i = 0; i < 5; ++i, now += kSecond) {
    sampler.sample(now);
    child.take_mib(20);
  }
  sampler.sample(now);
  const HostFacts f = sampler.facts();
  const RankProcess& r = f.ranks.at(0);
  ASSERT_EQ(r.anon_bytes.points.size(), 6u);
  for (size_t i = 1; i < 6; ++i) {
    const double grown = r.anon_bytes.points[i].value - r.anon_bytes.points[i - 1].value;
    EXPECT_GE(grown, 19 * 1048576.0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow grows with it
    EXPECT_LE(grown, 21 * 1048576.0);
#endif
  }
  EXPECT_EQ(f.cores, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(*f.memory_total_bytes, 1e8);
  EXPECT_GT(f.host.memory_available_bytes.last, 0);
  EXPECT_EQ(r.uss_bytes.count, 1u);
  EXPECT_FALSE(r.run_delay_share.empty());
  ASSERT_GE(r.cgroup, 0);
}

// Two processes: a rank and its worker, which ends when told.
TEST(SamplerLive, SeesTheWorkerOfARankAndItsEnd) {
  int to[2], from[2];
  ASSERT_EQ(::pipe(to), 0);
  ASSERT_EQ(::pipe(from), 0);
  const int rank = ::fork();
  if (rank == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int worker = ::fork();
    if (worker == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) ::pause();
    }
    char c = 0;
    (void)!::write(from[1], &c, 1);
    (void)!::read(to[0], &c, 1);
    ::kill(worker, SIGKILL);
    ::waitpid(worker, nullptr, 0);
    (void)!::write(from[1], &c, 1);
    for (;;) ::pause();
  }
  char c = 0;
  ASSERT_EQ(::read(from[0], &c, 1), 1);
  Sampler sampler({.devices = false});
  sampler.add_rank(0, rank, 0);
  uint64_t now = monotonic_ns();
  sampler.sample(now);
  EXPECT_DOUBLE_EQ(sampler.facts().ranks.at(0).workers.last, 1);
  ASSERT_EQ(::write(to[1], &c, 1), 1);
  ASSERT_EQ(::read(from[0], &c, 1), 1);
  sampler.sample(now += 3 * kSecond);
  EXPECT_DOUBLE_EQ(sampler.facts().ranks.at(0).workers.last, 0);
  EXPECT_EQ(sampler.facts().ranks[0].worker_generations, 2u);
  ::kill(rank, SIGKILL);
  ::waitpid(rank, nullptr, 0);
  sampler.sample(now += 3 * kSecond);
  EXPECT_FALSE(sampler.facts().ranks[0].alive);
}

}  // namespace
}  // namespace stepscope
