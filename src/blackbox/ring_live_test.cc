// Writers and reader in different processes, at full speed, with everything that may happen to the writers.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "base/clock.h"
#include "blackbox/ring_reader.h"
#include "blackbox/ring_writer.h"
#include "child.h"
#include "scratch_folder.h"
#include "sealed_record.h"

namespace stepscope::blackbox {
namespace {

using testing::ScratchFolder;

constexpr int kThreads = 4;

// `threads` threads, each `count` sealed records (0 = for ever) under its own writer number.
void write_from_threads(RingWriter& writer, int threads, uint64_t count, uint64_t first_writer = 0) {
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&writer, count, number = first_writer + static_cast<uint64_t>(t)] {
      for (uint64_t i = 0; count == 0 || i < count; ++i) writer.put(sealed(number, i));
    });
  for (std::thread& t : pool) t.join();
}

// Follows a ring and checks everything that must hold for each pass.
class Follower {
 public:
  explicit Follower(const std::string& path) : reader_(*RingReader::open(path)) {}

  ReadStats pass(bool final = false) {
    out_.clear();
    const ReadStats stats = reader_.read(out_, 1 << 20, monotonic_ns(), final);
    for (const Record& r : out_) {
      EXPECT_TRUE(is_sealed(r)) << "a record that nobody wrote";
      auto [at, first] = last_.try_emplace(r.a, r.b);
      EXPECT_TRUE(first || r.b > at->second) << "writer " << r.a << ": " << r.b << " after " << at->second;
      at->second = r.b;
    }
    return stats;
  }

  void finish() {
    while (pass(true).read > 0) {}
    const ReadStats total = reader_.totals();
    EXPECT_EQ(total.read + total.lost + total.torn, reader_.head()) << "records unaccounted for";
    EXPECT_EQ(total.damaged, 0u);
  }

  ReadStats totals() const { return reader_.totals(); }
  uint64_t head() const { return reader_.head(); }
  const std::map<uint64_t, uint64_t>& last() const { return last_; }

 private:
  RingReader reader_;
  std::vector<Record> out_;
  std::map<uint64_t, uint64_t> last_;  // writer → its newest record
};

std::unique_ptr<RingWriter> make_ring(const ScratchFolder& folder, uint64_t capacity) {
  auto created = RingWriter::create(folder.file("a.ring"), {.capacity = capacity, .min_capacity = 1});
  EXPECT_TRUE(created.has_value());
  return std::move(*created);
}

class RingLive : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RingLive, FourThreadsAndAReaderInAnotherProcess) {
  constexpr uint64_t kCount = 200'000;
  ScratchFolder folder("/dev/shm");
  auto writer = make_ring(folder, GetParam());
  const pid_t child = testing::start_child([&] {
    write_from_threads(*writer, kThreads, kCount);
    return 0;
  });
  Follower follower(folder.file("a.ring"));
  while (follower.head() < kThreads * kCount) follower.pass();
  EXPECT_EQ(testing::wait_for(child), 0);
  follower.finish();
  EXPECT_EQ(follower.head(), kThreads * kCount);
  // Torn is only what a writer left that was lapped by the whole ring while it was descheduled in put().
  EXPECT_LE(follower.totals().torn, 1000u);
  EXPECT_GT(follower.totals().read, 0u);
}

TEST_P(RingLive, WriterKilledAtARandomMoment) {
  for (int round = 0; round < 20; ++round) {
    ScratchFolder folder("/dev/shm");
    auto writer = make_ring(folder, GetParam());
    const pid_t child = testing::start_child([&] {
      write_from_threads(*writer, kThreads, 0);
      return 0;
    });
    Follower follower(folder.file("a.ring"));
    const uint64_t end = monotonic_ns() + 1'000'000 * static_cast<uint64_t>(1 + round);
    while (monotonic_ns() < end) follower.pass();
    ::kill(child, SIGKILL);
    EXPECT_EQ(testing::wait_for(child), 128 + SIGKILL);
    const uint64_t torn_alive = follower.totals().torn;
    follower.finish();
    // One half-written record per thread, and what a descheduled writer that was lapped left in the last round.
    EXPECT_LE(follower.totals().torn - torn_alive, std::min<uint64_t>(100, GetParam()));
  }
}

TEST_P(RingLive, ForksWhileThreadsWrite) {
  constexpr uint64_t kCount = 50'000;
  constexpr int kForks = 8;
  ScratchFolder folder("/dev/shm");
  auto writer = make_ring(folder, GetParam());
  const pid_t child = testing::start_child([&] {
    std::thread forker([&] {
      for (uint64_t f = 0; f < kForks; ++f) {
        const pid_t grandchild = testing::start_child([&] {
          for (uint64_t i = 0; i < 1000; ++i) writer->put(sealed(100 + f, i));
          return 0;
        });
        if (testing::wait_for(grandchild) != 0) ::_exit(3);
      }
    });
    write_from_threads(*writer, kThreads, kCount);
    forker.join();
    return 0;
  });
  Follower follower(folder.file("a.ring"));
  const uint64_t all = kThreads * kCount + kForks * 1000;
  while (follower.head() < all && ::kill(child, 0) == 0) {
    follower.pass();
    if (int status; ::waitpid(child, &status, WNOHANG) == child) {
      EXPECT_EQ(status, 0);
      break;
    }
  }
  follower.finish();
  EXPECT_EQ(follower.head(), all);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Capacities, RingLive, ::testing::Values(64, kMinCapacity, kDefaultCapacity),
                         [](const auto& info) { return std::to_string(info.param); });

TEST(RingLiveNames, FromManyThreads) {
  ScratchFolder folder("/dev/shm");
  auto writer = make_ring(folder, 64);
  const pid_t child = testing::start_child([&] {
    std::vector<std::thread> pool;
    for (uint64_t t = 0; t < kThreads; ++t)
      pool.emplace_back([&, t] {
        for (uint64_t i = 0; i < 200; ++i)
          writer->add_name(NameKind::kPhase, t << 32 | i, "phase " + std::to_string(i));
      });
    for (std::thread& t : pool) t.join();
    return 0;
  });
  auto reader = *RingReader::open(folder.file("a.ring"));
  std::vector<Name> names;
  while (names.size() < kThreads * 200) {
    reader.read_names(names);
    ASSERT_EQ(reader.totals().damaged, 0u);
    if (int status; ::waitpid(child, &status, WNOHANG) == child) {
      reader.read_names(names);
      break;
    }
  }
  ASSERT_EQ(names.size(), kThreads * 200u);
  for (const Name& n : names) EXPECT_EQ(n.text, "phase " + std::to_string(n.id & 0xffffffff));
}

}  // namespace
}  // namespace stepscope::blackbox
