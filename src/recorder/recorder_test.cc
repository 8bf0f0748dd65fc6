#include "recorder/recorder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

#include "base/clock.h"
#include "blackbox/ring_reader.h"
#include "blackbox/ring_writer.h"
#include "child.h"
#include "scratch_folder.h"

namespace {
bool g_leaks_unchecked = false;
}
// Asked by the leak checker when a process exits. It stops all threads to look for leaks, and fails now and then in a
// forked child with a thread that never ends.
extern "C" int __lsan_is_turned_off() { return g_leaks_unchecked; }

namespace stepscope::recorder {
namespace {

using blackbox::Record;
using blackbox::RingReader;
using testing::in_child;

constexpr const char* kVariables[] = {
    "STEPSCOPE_SHM",    "STEPSCOPE_RUN_DIR", "STEPSCOPE_NONCE",           "RANK", "LOCAL_RANK", "WORLD_SIZE",
    "LOCAL_WORLD_SIZE", "GROUP_RANK",        "TORCHELASTIC_RESTART_COUNT"};

class RecorderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kVariables) ::unsetenv(name);
    ::setenv("STEPSCOPE_SHM", folder_.path().c_str(), 1);
  }
  void TearDown() override { close(); }

  static std::vector<Record> records(const std::string& file = path()) {
    std::vector<Record> out;
    auto reader = RingReader::open(file);
    if (reader) reader->read(out, 1 << 20, 1, true);
    return out;
  }

  int files(const std::string& suffix) const {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      count += entry.path().string().ends_with(suffix);
    return count;
  }

  testing::ScratchFolder folder_{"/dev/shm"};
};

std::string text_of(const std::string& file) {
  std::ifstream in(file);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

TEST_F(RecorderTest, OffWithoutAFolderAndHarmless) {
  ::unsetenv("STEPSCOPE_SHM");
  EXPECT_FALSE(open());
  EXPECT_FALSE(active());
  EXPECT_STREQ(reason(), "STEPSCOPE_SHM is not set: not started by stepscope");
  mark(Kind::kOptimizer, Edge::kEnd, 1, 2, 3, 4, 5);
  usage_mark();
  set_identity(1, 1, 1, 1, 1);
  set_life(1);
  add_evidence(1);
  worker_mark(Edge::kBegin, 0, 0);
  close();
  discard();
  EXPECT_FALSE(name(NameKind::kModule, 1, "x"));
  EXPECT_EQ(control(), nullptr);
  EXPECT_STREQ(reason(), "STEPSCOPE_SHM is not set: not started by stepscope") << "close changed why it is off";
}

TEST_F(RecorderTest, OpensAPrivateRingNamedAfterTheProcess) {
  ASSERT_TRUE(open()) << reason();
  EXPECT_TRUE(active());
  EXPECT_STREQ(reason(), "");
  EXPECT_TRUE(std::regex_match(path(), std::regex(".*/" + std::to_string(::getpid()) + "-[0-9a-f]{16}\\.ring")))
      << path();
  struct stat st;
  ASSERT_EQ(::stat(path(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  const std::string first = path();
  EXPECT_TRUE(open()) << "opening twice does nothing";
  EXPECT_EQ(path(), first);
  EXPECT_EQ(files(".ring"), 1);
}

TEST_F(RecorderTest, FailureLeavesANoteForTheAgent) {
  testing::ScratchFolder run;
  ::setenv("STEPSCOPE_SHM", folder_.file("missing").c_str(), 1);
  ::setenv("STEPSCOPE_RUN_DIR", run.path().c_str(), 1);
  EXPECT_FALSE(open());
  const std::string note = run.file("off-" + std::to_string(::getpid()) + ".txt");
  EXPECT_EQ(text_of(note), std::string(reason()) + "\n");
  EXPECT_NE(text_of(note).find("No such file or directory"), std::string::npos);
  std::ofstream(note) << "kept";
  EXPECT_FALSE(open());
  EXPECT_EQ(text_of(note), "kept");
  ::setenv("STEPSCOPE_RUN_DIR", run.file("missing").c_str(), 1);
  EXPECT_FALSE(open()) << "no folder for the note: silently off";
}

TEST_F(RecorderTest, IdentityComesFromTheEnvironment) {
  ::setenv("RANK", "3", 1), ::setenv("LOCAL_RANK", "1", 1), ::setenv("WORLD_SIZE", "8", 1);
  ::setenv("GROUP_RANK", "2", 1), ::setenv("TORCHELASTIC_RESTART_COUNT", "4", 1);
  ::setenv("STEPSCOPE_NONCE", "000102030405060708090A0b0c0d0e0f", 1);
  ASSERT_TRUE(open());
  const auto id = RingReader::open(path())->identity();
  EXPECT_EQ(id.rank, 3);
  EXPECT_EQ(id.local_rank, 1);
  EXPECT_EQ(id.world_size, 8);
  EXPECT_EQ(id.node_rank, 2);
  EXPECT_EQ(id.attempt, 4);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(id.run_nonce[i], i);
  EXPECT_EQ(id.evidence, 0u) << "RANK alone is no evidence";
}

TEST_F(RecorderTest, NonsenseInTheEnvironmentIsUnknown) {
  ::setenv("RANK", "three", 1), ::setenv("LOCAL_RANK", "-1", 1), ::setenv("WORLD_SIZE", "99999999999", 1);
  ::setenv("GROUP_RANK", "", 1), ::setenv("STEPSCOPE_NONCE", "zz0102030405060708090A0b0c0d0e0f", 1);
  ASSERT_TRUE(open());
  const auto id = RingReader::open(path())->identity();
  EXPECT_EQ(id.rank, -1);
  EXPECT_EQ(id.local_rank, -1);
  EXPECT_EQ(id.world_size, -1);
  EXPECT_EQ(id.node_rank, -1);
  EXPECT_EQ(id.attempt, 0);
  EXPECT_EQ(id.run_nonce[0], 0);
}

TEST_F(RecorderTest, IdentityIsFilledInLater) {
  ::setenv("RANK", "3", 1);
  ASSERT_TRUE(open({.rank = 5}));
  auto reader = *RingReader::open(path());
  EXPECT_EQ(reader.identity().rank, 5) << "the caller knows better than the environment";
  set_identity(6, kUnknown, 16, 1, kUnknown);
  EXPECT_EQ(reader.identity().rank, 6);
  EXPECT_EQ(reader.identity().local_rank, -1);
  EXPECT_EQ(reader.identity().world_size, 16);
  add_evidence(blackbox::kEvidenceGroup);
  add_evidence(blackbox::kEvidenceBackward);
  EXPECT_EQ(reader.identity().evidence, blackbox::kEvidenceGroup | blackbox::kEvidenceBackward);
  const auto out = records();
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].kind, pack_kind(Kind::kProcess, Edge::kMark));
  EXPECT_EQ(out[0].a, static_cast<uint64_t>(ProcessEvent::kRankKnown));
  EXPECT_EQ(out[0].b, 6u);
}

TEST_F(RecorderTest, MarkCarriesEverything) {
  ASSERT_TRUE(open());
  const uint64_t before = monotonic_ns();
  mark(Kind::kForward, Edge::kBegin, 1, 2, 3, ~0ull, kForwardGrad);
  const uint64_t after = monotonic_ns();
  mark_at(77, Kind::kSave, Edge::kEnd);
  const auto out = records();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].kind, pack_kind(Kind::kForward, Edge::kBegin));
  EXPECT_EQ(out[0].flags, kForwardGrad);
  EXPECT_EQ(out[0].thread, static_cast<uint32_t>(::gettid()));
  EXPECT_EQ(out[0].a, 1u);
  EXPECT_EQ(out[0].b, 2u);
  EXPECT_EQ(out[0].c, 3u);
  EXPECT_EQ(out[0].d, ~0ull);
  EXPECT_GE(out[0].time_ns, before);
  EXPECT_LE(out[0].time_ns, after);
  EXPECT_EQ(out[1].time_ns, 77u);
}

TEST_F(RecorderTest, ThreadsAreToldApart) {
  ASSERT_TRUE(open());
  constexpr int kThreads = 4, kMarks = 1000;
  std::vector<std::thread> pool;
  for (uint64_t t = 0; t < kThreads; ++t)
    pool.emplace_back([t] {
      for (uint64_t i = 0; i < kMarks; ++i) mark(Kind::kWait, Edge::kBegin, t, i);
    });
  for (auto& t : pool) t.join();
  std::set<std::pair<uint64_t, uint32_t>> writers;
  const auto out = records();
  for (const Record& r : out) writers.insert({r.a, r.thread});
  EXPECT_EQ(out.size(), size_t{kThreads * kMarks});
  EXPECT_EQ(writers.size(), size_t{kThreads}) << "one thread id per thread";
}

TEST_F(RecorderTest, UsageCountsTheCallingThread) {
  ASSERT_TRUE(open());
  usage_mark();
  const uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 20'000'000;
  while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end) {}
  ::usleep(1000);
  usage_mark();
  const auto out = records();
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out[0].kind, pack_kind(Kind::kUsage, Edge::kMark));
  EXPECT_GE(out[1].a - out[0].a, 19'000'000u);
  EXPECT_LT(out[1].a, clock_ns(CLOCK_PROCESS_CPUTIME_ID) + 10'000'000);
  EXPECT_GE(out[1].b, out[0].b);
  EXPECT_GE(out[1].c, out[0].c + 1) << "the sleep is a voluntary switch";
}

TEST_F(RecorderTest, CloseIsOrderlyAndFinal) {
  ASSERT_TRUE(open());
  const std::string file = path();
  mark(Kind::kGc, Edge::kBegin);
  set_life(blackbox::kLifeTeardown);
  close();
  mark(Kind::kGc, Edge::kEnd);
  usage_mark();
  EXPECT_FALSE(active());
  EXPECT_STREQ(reason(), "closed");
  EXPECT_EQ(records(file).size(), 1u);
  const auto id = RingReader::open(file)->identity();
  EXPECT_EQ(id.life, blackbox::kLifeTeardown | blackbox::kLifeClosed);
  EXPECT_GE(id.life_changed_ns, id.anchor_monotonic_ns);
}

TEST_F(RecorderTest, DiscardKeepsTheRingOfARank) {
  ASSERT_TRUE(open());
  discard();
  EXPECT_EQ(files(".ring"), 0);
  ASSERT_TRUE(open());
  add_evidence(blackbox::kEvidenceOptimizer);
  discard();
  EXPECT_EQ(files(".ring"), 1);
}

TEST_F(RecorderTest, AgentStopsItAtTheNextStepBoundary) {
  ASSERT_TRUE(open());
  const std::string file = path();
  ASSERT_TRUE(RingReader::open(file)->set_control(blackbox::ControlWord::kStop, 1).has_value());
  mark(Kind::kForward, Edge::kEnd);
  EXPECT_TRUE(active());
  EXPECT_EQ(control()->stop.load(), 1u);
  mark(Kind::kOptimizer, Edge::kEnd);
  EXPECT_FALSE(active());
  EXPECT_STREQ(reason(), "stopped by the agent");
  mark(Kind::kForward, Edge::kEnd);
  EXPECT_EQ(records(file).size(), 2u);
}

TEST_F(RecorderTest, OpenCloseAndMarksFromManyThreads) {
  std::atomic<bool> done{false};
  std::vector<std::thread> pool;
  for (int t = 0; t < 4; ++t)
    pool.emplace_back([&] {
      for (uint64_t i = 0; !done; ++i) {
        mark(Kind::kOptimizer, Edge::kEnd, i, ~i);
        if (i % 100 == 0) usage_mark(), name(NameKind::kValue, i, "x"), set_life(0), add_evidence(1);
      }
    });
  for (int i = 0; i < 50; ++i) {
    OpenOptions options;
    options.capacity = 256;
    EXPECT_TRUE(open(options)) << reason();
    close();
  }
  done = true;
  for (auto& t : pool) t.join();
  EXPECT_EQ(files(".ring"), 50);
  EXPECT_EQ(files(".new"), 0);
}

TEST_F(RecorderTest, ForkedChildIsOff) {
  ASSERT_TRUE(open());
  mark(Kind::kGc, Edge::kBegin);
  EXPECT_EQ(in_child([] {
              mark(Kind::kGc, Edge::kEnd);
              usage_mark();
              set_identity(9, 9, 9, 9, 9);
              set_life(4);
              close();
              return !active() && std::strcmp(reason(), "forked child") == 0 && !control() ? 0 : 1;
            }),
            0);
  EXPECT_EQ(records().size(), 1u);
  EXPECT_EQ(RingReader::open(path())->identity().life, 0u) << "the child closed its parent's ring";
  EXPECT_EQ(RingReader::open(path())->identity().rank, -1);
  EXPECT_TRUE(active());
}

TEST_F(RecorderTest, ForkedChildMayOpenItsOwnRing) {
  ASSERT_TRUE(open());
  mark(Kind::kGc, Edge::kBegin);  // caches this thread's id
  EXPECT_EQ(in_child([] {
              if (!open()) return 1;
              mark(Kind::kGc, Edge::kEnd, 1);
              const auto out = records();
              if (out.size() != 1 || out[0].thread != static_cast<uint32_t>(::gettid())) return 2;
              return RingReader::open(path())->identity().pid == ::getpid() ? 0 : 3;
            }),
            0);
  EXPECT_EQ(files(".ring"), 2);
  EXPECT_EQ(records().size(), 1u);
}

TEST_F(RecorderTest, ForkWhileAnotherThreadOpensAndCloses) {
  std::atomic<bool> done{false};
  std::thread busy([&] {
    OpenOptions options;
    options.capacity = 64;
    while (!done) open(options), mark(Kind::kGc, Edge::kBegin), discard();
  });
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(in_child([] {
                OpenOptions options;
                options.capacity = 64;
                if (!open(options)) return 1;  // the lock of a thread that is not here must not stay taken
                mark(Kind::kGc, Edge::kEnd);
                return records().size() == 1 ? 0 : 2;
              }),
              0);
  }
  done = true;
  busy.join();
}

TEST_F(RecorderTest, ForkedWorkerWritesOnlyItsFetches) {
  ASSERT_TRUE(open());
  int worker = 0;
  EXPECT_EQ(in_child([] {
              worker_mark(Edge::kBegin, 7, 8, 9);  // not adopted yet
              if (!adopt_as_worker()) return 1;
              worker_mark(Edge::kBegin, 1, 2, 16);
              mark(Kind::kGc, Edge::kBegin);
              worker_mark(Edge::kEnd, 1, 2, 16);
              return active() ? 2 : 0;
            }),
            0);
  const auto out = records();
  ASSERT_EQ(out.size(), 2u);
  for (const Record& r : out) {
    EXPECT_EQ(kind_of(r.kind), Kind::kWorkerFetch);
    EXPECT_EQ(r.a, 1u);
    EXPECT_EQ(r.b, 2u);
    EXPECT_EQ(r.c, 16u);
    EXPECT_NE(r.thread, static_cast<uint32_t>(::gettid()));
    worker += static_cast<int>(edge_of(r.kind));
  }
  EXPECT_EQ(worker, 3) << "one begin and one end";
}

TEST_F(RecorderTest, NothingToAdopt) {
  EXPECT_EQ(in_child([] { return adopt_as_worker() ? 1 : 0; }), 0);
  EXPECT_FALSE(adopt_as_worker("/nonexistent.ring"));
  worker_mark(Edge::kBegin, 1, 1);
}

TEST_F(RecorderTest, SpawnedWorkerGivesUpItsOwnRing) {
  auto parent = blackbox::RingWriter::create(folder_.file("parent.ring"));
  ASSERT_TRUE(parent.has_value());
  EXPECT_EQ(in_child([&] {
              if (!open()) return 1;  // provisionally, since RANK was in its environment
              if (!adopt_as_worker(folder_.file("parent.ring").c_str())) return 2;
              worker_mark(Edge::kBegin, 3, 4);
              mark(Kind::kGc, Edge::kBegin);
              return std::strcmp(reason(), "loader worker") == 0 ? 0 : 3;
            }),
            0);
  EXPECT_EQ(files(".ring"), 1);
  EXPECT_EQ(records(folder_.file("parent.ring")).size(), 1u);
}

TEST_F(RecorderTest, MarksWhileTheProcessExits) {
  EXPECT_EQ(in_child([]() -> int {
              g_leaks_unchecked = true;
              open();
              std::atexit([] { mark(Kind::kProcess, Edge::kMark), close(), mark(Kind::kProcess, Edge::kMark); });
              std::thread([] {
                for (;;) mark(Kind::kWait, Edge::kBegin);
              }).detach();
              ::usleep(2000);
              std::exit(0);
            }),
            0);
}

TEST_F(RecorderTest, TruncatedRingDoesNotKillTheTraining) {
  EXPECT_EQ(in_child([] {
              if (!open()) return 1;
              mark(Kind::kGc, Edge::kBegin);
              if (::truncate(path(), 0) != 0) return 2;
              for (int i = 0; i < 100'000; ++i) mark(Kind::kOptimizer, Edge::kEnd);
              close();
              return std::strcmp(reason(), "the ring file was truncated") == 0 ? 0 : 3;
            }),
            0);
}

TEST_F(RecorderTest, TruncatedRingOfAProcessAtItsLimits) {
  EXPECT_EQ(in_child([] {
              if (!open()) return 1;
              const rlimit none{4096, 4096};  // nothing can be mapped any more
              if (::setrlimit(RLIMIT_AS, &none) != 0) return 2;
              if (::truncate(path(), 0) != 0) return 3;
              ::alarm(20);  // a handler that changes nothing is called for ever
              for (int i = 0; i < 1000; ++i) mark(Kind::kOptimizer, Edge::kEnd);
              return active() ? 4 : 0;
            }),
            0);
}

TEST_F(RecorderTest, TruncationReachesUsThroughAnotherHandler) {
  EXPECT_EQ(in_child([] {
              if (!open()) return 1;
              // As Python's faulthandler does: say something, put the previous handler back, raise again.
              static struct sigaction previous;
              struct sigaction own{};
              own.sa_handler = [](int signal) {
                ::sigaction(signal, &previous, nullptr);
                ::raise(signal);
              };
              ::sigaction(SIGBUS, &own, &previous);
              if (::truncate(path(), 0) != 0) return 2;
              mark(Kind::kOptimizer, Edge::kEnd);
              return active() ? 3 : 0;
            }),
            0);
}

// A mapping of the program's own that has no file behind it any more.
volatile char* broken_mapping(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT, 0600);
  if (::ftruncate(fd, 4096) != 0) return nullptr;
  void* at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (::ftruncate(fd, 0) != 0) return nullptr;
  return static_cast<char*>(at);
}

TEST_F(RecorderTest, BusErrorsOfTheProgramStayItsOwn) {
  const auto fault = [&] {
    return in_child([&] {
      ::signal(SIGBUS, SIG_DFL);
      if (!open()) return 1;
      *broken_mapping(folder_.file("own")) = 1;
      return 2;
    });
  };
  EXPECT_EQ(fault(), 128 + SIGBUS);
  EXPECT_EQ(in_child([] {
              ::signal(SIGBUS, SIG_DFL);
              if (!open()) return 1;
              ::raise(SIGBUS);
              return 2;
            }),
            128 + SIGBUS);
  EXPECT_EQ(in_child([&] {
              ::signal(SIGBUS, [](int) { ::_exit(42); });
              if (!open()) return 1;
              *broken_mapping(folder_.file("own")) = 1;
              return 2;
            }),
            42);
  EXPECT_EQ(in_child([] {
              ::signal(SIGBUS, SIG_IGN);
              if (!open()) return 1;
              ::raise(SIGBUS);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace stepscope::recorder
