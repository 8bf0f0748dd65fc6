// The run file under faults: writer killed, readers beside it, disk full, folder read-only, file damaged.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "child.h"
#include "random_rows.h"
#include "scratch_folder.h"
#include "store/run_reader.h"
#include "store/run_writer.h"

namespace stepscope {
namespace {

using examples::JobRows;
using testing::in_child;
using testing::ScratchFolder;
using testing::start_child;
using testing::wait_for;

constexpr uint64_t kSecond = 1'000'000'000;

RunWriterOptions options_for() {
  RunWriterOptions options;
  options.run_id = "run-1";
  options.start_ns = 1'000'000'000'000;
  return options;
}

struct Contents {
  std::vector<uint32_t> steps;
  std::string error;
  uint64_t damaged = 0;
};

Contents read_all(const std::string& path) {
  Contents out;
  auto reader = RunReader::open(path);
  if (!reader) {
    out.error = reader.error().message;
    return out;
  }
  const Status status =
      reader->for_each_row({}, [&](const StoredRow& row) { return out.steps.push_back(row.row.step), true; });
  if (!status) out.error = status.error().message;
  out.damaged = reader->damaged();
  return out;
}

bool counts_from_zero(const std::vector<uint32_t>& steps) {
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i] != i) return false;
  return true;
}

// A child that writes rows for ever and says through a pipe how many it has handed over.
pid_t start_writer(const std::string& path, int report, RunWriterOptions options) {
  return start_child([=] {
    RunWriter writer(path, options);
    JobRows job({.ranks = 4});
    for (uint32_t given = 1;; ++given) {
      writer.add_row(job.next());
      if (::write(report, &given, sizeof given) != sizeof given) return 1;
    }
    return 0;
  });
}

uint32_t read_until(int fd, uint32_t enough) {
  uint32_t given = 0;
  while (given < enough && ::read(fd, &given, sizeof given) == sizeof given) {}
  return given;
}

class KilledWriter : public ::testing::TestWithParam<RunJournal> {};

TEST_P(KilledWriter, LeavesAllButTheLastBlock) {
  std::mt19937 random(7);
  for (int round = 0; round < 12; ++round) {
    ScratchFolder folder;
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    RunWriterOptions options = options_for();
    options.journal = GetParam();
    const pid_t pid = start_writer(folder.file("run.db"), ends[1], options);
    ::close(ends[1]);
    const uint32_t enough = read_until(ends[0], 100 + random() % 3000);
    ::kill(pid, SIGKILL);
    wait_for(pid);
    const uint32_t given = std::max(enough, read_until(ends[0], ~0u));  // what it said before it died
    ::close(ends[0]);
    const Contents left = read_all(folder.file("run.db"));
    EXPECT_EQ(left.error, "");
    EXPECT_EQ(left.damaged, 0u);
    EXPECT_TRUE(counts_from_zero(left.steps));
    EXPECT_LE(left.steps.size(), given + 1);
    EXPECT_GE(left.steps.size() + 65, given);
    // The agent's successor goes on where the file ends.
    JobRows job({.ranks = 4});
    RunWriter next(folder.file("run.db"), options);
    EXPECT_FALSE(next.take_error());
    const size_t total = left.steps.size() + 100;
    for (size_t i = 0; i < total; ++i) next.add_row(job.next());
    next.close();
    EXPECT_EQ(read_all(folder.file("run.db")).steps.size(), total);
  }
}

INSTANTIATE_TEST_SUITE_P(Journals, KilledWriter, ::testing::Values(RunJournal::kWal, RunJournal::kRollback),
                         [](const auto& info) { return info.param == RunJournal::kWal ? "Wal" : "Rollback"; });

TEST(RunFaults, TheMainFileAloneIsReadable) {
  // Somebody copies run.db away without its journal while the run goes on.
  ScratchFolder folder;
  RunWriter writer(folder.file("run.db"), options_for());
  JobRows job({.ranks = 4});
  for (int i = 0; i < 20'000; ++i) writer.add_row(job.next());
  std::filesystem::copy_file(folder.file("run.db"), folder.file("copy.db"));
  const Contents copy = read_all(folder.file("copy.db"));
  EXPECT_EQ(copy.error, "");
  EXPECT_GT(copy.steps.size(), 1000u);
  EXPECT_TRUE(counts_from_zero(copy.steps));
}

class ReadersBeside : public ::testing::TestWithParam<RunJournal> {};

TEST_P(ReadersBeside, SeeAWholeRunAndHinderNobody) {
  ScratchFolder folder;
  const std::string path = folder.file("run.db");
  RunWriterOptions options = options_for();
  options.journal = GetParam();
  std::atomic<bool> over = false;
  std::atomic<uint64_t> reads = 0, bad = 0;
  RunWriter writer(path, options);
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      size_t before = 0;
      while (!over) {
        const Contents seen = read_all(path);
        bad += !seen.error.empty() || seen.damaged || !counts_from_zero(seen.steps) || seen.steps.size() < before;
        before = seen.steps.size();
        ++reads;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  JobRows job({.ranks = 4});
  uint64_t now_ns = 1000 * kSecond;
  for (int i = 0; i < 6000; ++i) {
    writer.add_row(job.next());
    writer.tick(now_ns += kSecond / 25);
    if (i % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  over = true;
  for (std::thread& reader : readers) reader.join();
  writer.close();
  EXPECT_FALSE(writer.take_error());
  EXPECT_EQ(writer.stats().lost(), 0u);
  EXPECT_GT(reads, 10u);
  EXPECT_EQ(bad, 0u);
  EXPECT_EQ(read_all(path).steps.size(), 6000u);
}

INSTANTIATE_TEST_SUITE_P(Journals, ReadersBeside, ::testing::Values(RunJournal::kWal, RunJournal::kRollback),
                         [](const auto& info) { return info.param == RunJournal::kWal ? "Wal" : "Rollback"; });

// Holds a read transaction, as a paused `sqlite3` does.
class HeldOpen {
 public:
  explicit HeldOpen(const std::string& path) {
    sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READONLY, nullptr);
    sqlite3_exec(db_, "BEGIN; SELECT count(*) FROM block;", nullptr, nullptr, nullptr);
  }
  ~HeldOpen() { sqlite3_close_v2(db_); }

 private:
  sqlite3* db_ = nullptr;
};

TEST(RunFaults, AReaderThatHoldsOnMakesTheJournalFileNoLargerThanItsBound) {
  ScratchFolder folder;
  RunWriterOptions options = options_for();
  options.max_bytes = 4u << 20;
  options.journal = RunJournal::kWal;
  RunWriter writer(folder.file("run.db"), options);
  JobRows job({.ranks = 16});
  uint64_t now_ns = 1000 * kSecond, largest = 0;
  const auto write_rows = [&](int count) {
    for (int i = 0; i < count; ++i) {
      writer.add_row(job.next());
      writer.tick(now_ns += kSecond / 10);
      if (i % 64 == 0) largest = std::max<uint64_t>(largest, std::filesystem::file_size(folder.file("run.db-wal")));
    }
  };
  write_rows(64);
  {
    HeldOpen held(folder.file("run.db"));
    write_rows(20'000);
    EXPECT_LE(largest, options.max_bytes);
    EXPECT_GT(writer.stats().lost_rows, 0u) << "memory is bounded too";
    EXPECT_FALSE(writer.failed());
  }
  const uint64_t lost = writer.stats().lost_rows;
  write_rows(640);
  writer.close();
  EXPECT_LE(writer.stats().lost_rows, lost + 3) << "goes on as soon as the reader has let go";
  const Contents left = read_all(folder.file("run.db"));
  EXPECT_EQ(left.error, "");
  EXPECT_EQ(left.steps.back(), 64u + 20'000 + 640 - 1);
}

TEST(RunFaults, AReaderOfARollbackJournalDelaysRowsButLosesNone) {
  ScratchFolder folder;
  RunWriterOptions options = options_for();
  options.journal = RunJournal::kRollback;
  RunWriter writer(folder.file("run.db"), options);
  JobRows job({.ranks = 2});
  uint64_t now_ns = 1000 * kSecond;
  {
    HeldOpen held(folder.file("run.db"));
    for (int i = 0; i < 500; ++i) writer.add_row(job.next()), writer.tick(now_ns += kSecond / 10);
    EXPECT_EQ(writer.stats().rows, 0u);
  }
  writer.tick(now_ns += kSecond);
  EXPECT_EQ(writer.stats().rows, 500u);
  EXPECT_EQ(writer.stats().lost(), 0u);
}

// 0 = all as it should be, else the number of the check that failed.
int fill_disk(const std::string& path, const std::string& ballast, uint64_t& rows_left) {
  RunWriterOptions options = options_for();
  RunWriter writer(path, options);
  if (writer.take_error()) return 1;
  JobRows job({.ranks = 8});
  uint64_t now_ns = 1000 * kSecond;
  int rows = 0;
  for (; rows < 20'000 && !writer.failed(); ++rows) writer.add_row(job.next()), writer.tick(now_ns += kSecond / 25);
  if (!writer.failed()) return 2;
  const auto error = writer.take_error();
  if (!error || error->message.find("run.db: database or disk is full") == std::string::npos) return 3;
  // Told once; later calls are cheap and counted.
  const uint64_t lost = writer.stats().lost_rows;
  for (int i = 0; i < 1000; ++i) writer.add_row(job.next());
  if (writer.take_error() || writer.stats().lost_rows != lost + 1000) return 4;
  rows_left = read_all(path).steps.size();
  if (rows_left == 0 || rows_left + lost != static_cast<uint64_t>(rows)) return 5;
  if (ballast.empty()) return 0;
  // Somebody makes room: after a minute writing goes on, and says what was lost.
  std::filesystem::remove(ballast);
  writer.tick(now_ns += 61 * kSecond);
  for (int i = 0; i < 200; ++i) writer.add_row(job.next());
  writer.tick(now_ns += 6 * kSecond);
  if (writer.failed()) return 6;
  writer.close();
  auto reader = RunReader::open(path);
  if (!reader) return 7;
  const auto events = reader->events();
  if (!events || events->size() != 1 || (*events)[0].kind != "run_file") return 8;
  const Contents all = read_all(path);
  if (all.steps.size() != rows_left + 200 || all.damaged) return 9;
  return 0;
}

TEST(RunFaults, DiskFull) {
  ScratchFolder folder;
  const int code = in_child([&] {
    if (!folder.mount_tmpfs("size=3m")) return 77;
    { std::ofstream(folder.file("ballast")) << std::string(2u << 20, 'x'); }
    uint64_t rows_left = 0;
    return fill_disk(folder.file("run.db"), folder.file("ballast"), rows_left);
  });
  if (code == 77) GTEST_SKIP() << "no mounts here";
  EXPECT_EQ(code, 0);
}

TEST(RunFaults, DiskFullFromTheStart) {
  ScratchFolder folder;
  const int code = in_child([&] {
    if (!folder.mount_tmpfs("size=64k")) return 77;
    { std::ofstream(folder.file("ballast")) << std::string(64u << 10, 'x'); }
    RunWriter writer(folder.file("run.db"), options_for());
    if (!writer.failed() || !writer.take_error()) return 1;
    JobRows job({.ranks = 2});
    for (int i = 0; i < 100; ++i) writer.add_row(job.next());
    writer.close();
    return writer.stats().lost_rows == 100 && !writer.take_error() ? 0 : 2;
  });
  if (code == 77) GTEST_SKIP() << "no mounts here";
  EXPECT_EQ(code, 0);
}

TEST(RunFaults, FileSizeLimit) {
  ScratchFolder folder;
  const int code = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {400u << 10, 400u << 10};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 77;
    RunWriter writer(folder.file("run.db"), options_for());
    JobRows job({.ranks = 8});
    for (int i = 0; i < 20'000; ++i) writer.add_row(job.next());
    if (!writer.failed() || !writer.take_error()) return 1;
    writer.close();
    const Contents left = read_all(folder.file("run.db"));
    return left.error.empty() && counts_from_zero(left.steps) && !left.steps.empty() ? 0 : 2;
  });
  if (code == 77) GTEST_SKIP() << "no limits here";
  EXPECT_EQ(code, 0);
}

TEST(RunFaults, AFolderThatIsNotThere) {
  RunWriter writer("/nonexistent/run.db", options_for());
  EXPECT_TRUE(writer.failed());
  const auto error = writer.take_error();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "/nonexistent/run.db: No such file or directory");
  EXPECT_FALSE(writer.take_error());
  JobRows job({.ranks = 2});
  for (int i = 0; i < 1000; ++i) writer.add_row(job.next());
  writer.add_event({.kind = "x"});
  writer.add_sample({"host", -1, "x"}, 0, 1);
  writer.put_snapshot("{}", 0, 0);
  writer.flush(5 * kSecond);
  EXPECT_EQ(writer.stats().lost_rows, 1000u);
  EXPECT_EQ(writer.stats().lost_events, 1u);
  EXPECT_EQ(writer.stats().lost_samples, 1u);
  EXPECT_EQ(writer.stats().lost_snapshots, 1u);
}

std::string whole_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::string good_image() {
  ScratchFolder folder;
  {
    RunWriter writer(folder.file("run.db"), options_for());
    JobRows job({.ranks = 4});
    for (int i = 0; i < 9000; ++i) {
      writer.add_row(job.next());
      writer.add_sample({"host", -1, "cpu_share"}, i, 0.1 * (i % 7));
    }
    writer.add_event({.kind = "x", .text = "y"});
    writer.put_snapshot("{}", 1, 1);
  }
  return whole_file(folder.file("run.db"));
}

// Every question that a reader can be asked.
void ask_everything(const std::string& path) {
  auto reader = RunReader::open(path);
  if (!reader) {
    EXPECT_FALSE(reader.error().message.empty());
    EXPECT_EQ(reader.error().message.find('\n'), std::string::npos);
    return;
  }
  size_t rows = 0;
  (void)reader->for_each_row({}, [&](const StoredRow&) { return ++rows < 1'000'000; });
  (void)reader->run(), (void)reader->lives(), (void)reader->groups(), (void)reader->findings(), (void)reader->events(),
      (void)reader->snapshot();
  (void)reader->sums();
  if (const auto series = reader->series())
    for (const SeriesKey& key : *series) (void)reader->samples(key);
}

TEST(RunDamage, TruncatedFilesAreRefusedOrReadInPart) {
  const std::string good = good_image();
  ScratchFolder folder;
  std::mt19937_64 random(11);
  for (int i = 0; i < 150; ++i) {
    write_file(folder.file("run.db"), good.substr(0, i < 20 ? static_cast<size_t>(i) * 16 : random() % good.size()));
    ask_everything(folder.file("run.db"));
  }
}

TEST(RunDamage, ScribbledFilesNeverShowWrongRows) {
  const std::string good = good_image();
  ScratchFolder folder;
  write_file(folder.file("good.db"), good);
  std::vector<StepRow> truth;
  {
    JobRows job({.ranks = 4});
    for (int i = 0; i < 9000; ++i) truth.push_back(job.next());
  }
  std::mt19937_64 random(13);
  uint64_t damaged = 0, refused = 0;
  for (int i = 0; i < 150; ++i) {
    std::string bytes = good;
    for (uint64_t k = 0; k < 1 + random() % 40; ++k)
      bytes[100 + random() % (bytes.size() - 100)] = static_cast<char>(random());
    write_file(folder.file("run.db"), bytes);
    ask_everything(folder.file("run.db"));
    auto reader = RunReader::open(folder.file("run.db"));
    if (!reader) {
      ++refused;
      continue;
    }
    uint64_t wrong = 0;
    const Status status = reader->for_each_row({}, [&](const StoredRow& row) {
      if (row.row.step >= truth.size() || row.row.cells.size() != 4) return ++wrong, true;
      const StepRow& was = truth[row.row.step];
      for (size_t r = 0; r < 4; ++r) wrong += std::abs(row.row.cells[r].wall_ms - was.cells[r].wall_ms) > 0.01f;
      return true;
    });
    EXPECT_EQ(wrong, 0u);
    damaged += reader->damaged() > 0 || !status;
  }
  EXPECT_GT(damaged + refused, 20u);
}

TEST(RunDamage, ForeignFilesAreRefusedInOneLine) {
  ScratchFolder folder;
  const std::string path = folder.file("run.db");
  const auto message = [&] {
    auto reader = RunReader::open(path);
    return reader ? std::string("opened") : reader.error().message;
  };
  EXPECT_NE(message().find("no such file"), std::string::npos);
  write_file(path, "");
  EXPECT_NE(message().find("not a stepscope run file"), std::string::npos);
  write_file(path, std::string(5000, 'x'));
  EXPECT_NE(message().find("file is not a database"), std::string::npos);
  std::filesystem::remove(path);
  const auto sql = [&](const char* text) {
    sqlite3* db = nullptr;
    sqlite3_open(path.c_str(), &db);
    EXPECT_EQ(sqlite3_exec(db, text, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
    sqlite3_close(db);
  };
  sql("CREATE TABLE t(x)");
  EXPECT_NE(message().find("not a stepscope run file"), std::string::npos);
  write_file(path, good_image());
  EXPECT_EQ(message(), "opened");
  sql("PRAGMA user_version = 2003");
  EXPECT_EQ(message(), path + ": run file of format 2.3, this stepscope reads format 1.x");
  sql("PRAGMA user_version = 1007; ALTER TABLE run ADD COLUMN future TEXT; CREATE TABLE news(x); INSERT INTO metric "
      "VALUES(200, 'news', 'time')");
  EXPECT_EQ(message(), "opened") << "a newer minor version";
  EXPECT_EQ(read_all(path).steps.size(), 9000u);
  // A table that is really a view, with SQL of the file's own.
  sql("DROP TABLE event; CREATE VIEW event AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i "
      "AS id FROM n");
  EXPECT_NE(message().find("no table event"), std::string::npos);
}

TEST(RunDamage, AWriterRefusesWhatItCannotGoOnWith) {
  ScratchFolder folder;
  const std::string path = folder.file("run.db");
  write_file(path, std::string(5000, 'x'));
  RunWriter writer(path, options_for());
  EXPECT_TRUE(writer.failed());
  EXPECT_NE(writer.take_error()->message.find("not a database"), std::string::npos);
  writer.close();
  EXPECT_EQ(whole_file(path), std::string(5000, 'x')) << "left as it was";
}

}  // namespace
}  // namespace stepscope
