#include "agent/start_watch.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "scratch_folder.h"

namespace stepscope {
namespace {

TEST(StartNote, TellsWhoAndWhy) {
  const auto note = parse_start_note("1 0 4 2 777 12\nValueError: boom\n3 load a.py < 9 <module> train.py");
  ASSERT_TRUE(note);
  EXPECT_EQ(std::tie(note->rank, note->local_rank, note->world_size, note->restarts, note->launcher_pid),
            std::make_tuple(1, 0, 4, 2, 12));
  EXPECT_EQ(note->exception, "ValueError: boom");
  EXPECT_EQ(note->frames, "3 load a.py < 9 <module> train.py");
}

TEST(StartNote, WithoutARank) {
  const auto note = parse_start_note("- - - - 0 -\nImportError: x\n");
  ASSERT_TRUE(note);
  EXPECT_EQ(note->rank, -1);
  EXPECT_EQ(note->exception, "ImportError: x");
  EXPECT_FALSE(parse_start_note(""));
  EXPECT_FALSE(parse_start_note("1 2 3\n"));
}

RC_GTEST_PROP(StartNote, TakesAnyBytes, (const std::string& text)) {
  const auto note = parse_start_note(text);
  if (note) RC_ASSERT(note->rank >= -1 && note->rank <= 1 << 24 && note->exception.find('\n') == std::string::npos);
}

// A child that waits to be told how it is to end.
class Child {
 public:
  explicit Child(int code) {
    [[maybe_unused]] const int rc = ::pipe(pipe_);
    pid = ::fork();
    if (pid > 0) return;
    char byte = 0;
    ::close(pipe_[1]);
    [[maybe_unused]] const auto got = ::read(pipe_[0], &byte, 1);
    ::_exit(code);
  }
  void end() {
    [[maybe_unused]] const auto told = ::write(pipe_[1], "x", 1);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);  // and stays a zombie, as under a launcher
  }
  ~Child() {
    ::close(pipe_[0]), ::close(pipe_[1]);
    ::waitpid(pid, nullptr, 0);
  }
  pid_t pid = 0;

 private:
  int pipe_[2] = {};
};

class StartWatchTest : public ::testing::Test {
 protected:
  void note(pid_t pid, const std::string& text) {
    ASSERT_TRUE(write_file_atomic(folder_.path() + "/" + std::to_string(pid) + ".start", text));
  }
  std::vector<RankLife> look(bool has_ring = false) {
    return watch_.look([&](int) { return has_ring; }, now_ns_ += 2'000'000'000);
  }
  testing::ScratchFolder folder_;
  StartWatch watch_{folder_.path()};
  uint64_t now_ns_ = 0;
};

TEST_F(StartWatchTest, OneThatFailsIsTold) {
  Child child(3);
  note(child.pid, "1 1 2 0 0 -");
  EXPECT_TRUE(look().empty());
  ASSERT_EQ(watch_.starting().size(), 1u);
  EXPECT_EQ(watch_.starting()[0].rank, 1);
  note(child.pid, "1 1 2 0 0 -\nImportError: no torch\n3 <module> train.py");
  child.end();
  EXPECT_TRUE(look().empty()) << "its black box may have come after the last look at the folder";
  const auto failed = look();
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].exit_code, 3);
  EXPECT_EQ(failed[0].exception, "ImportError: no torch");
  EXPECT_TRUE(watch_.starting().empty());
  EXPECT_TRUE(look().empty());
}

TEST_F(StartWatchTest, OneThatEndsWellOrOpensItsBlackBoxIsNot) {
  Child well(0), opens(3);
  note(well.pid, "0 0 2 0 0 -");
  note(opens.pid, "1 1 2 0 0 -");
  look();
  well.end(), opens.end();
  EXPECT_TRUE(look(true).empty());
  EXPECT_TRUE(look(true).empty());
}

TEST_F(StartWatchTest, WhoStartsRanksIsNone) {
  Child launcher(1), rank(0);
  note(launcher.pid, "0 - 2 0 0 -");
  note(rank.pid, "0 0 2 0 0 " + std::to_string(launcher.pid));
  look();
  EXPECT_TRUE(watch_.launches(launcher.pid));
  ASSERT_EQ(watch_.starting().size(), 1u);
  EXPECT_EQ(watch_.starting()[0].pid, rank.pid);
  launcher.end(), rank.end();
}

TEST_F(StartWatchTest, AProgramWithoutARank) {
  note(4711, "- - - - 0 -\nSyntaxError: invalid syntax\n7 <module> train.py");
  look();
  ASSERT_TRUE(watch_.exception_of(4711));
  EXPECT_EQ(watch_.exception_of(4711)->exception, "SyntaxError: invalid syntax");
  EXPECT_FALSE(watch_.exception_of(4712));
}

}  // namespace
}  // namespace stepscope
