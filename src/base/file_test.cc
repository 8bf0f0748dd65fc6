#include "base/file.h"

#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/log.h"

namespace stepscope {
namespace {

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stepscope-file-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  void TearDown() override { remove_flat_dir(folder_); }
  std::string in(const char* name) const { return path_join(folder_, name); }

  std::string folder_;
};

TEST_F(FileTest, WritesAtomicallyAndReadsBack) {
  ASSERT_TRUE(write_file_atomic(in("a"), "one"));
  ASSERT_TRUE(write_file_atomic(in("a"), "two two"));
  EXPECT_EQ(read_file(in("a")).value(), "two two");
  EXPECT_EQ(read_file(in("a"), 3).value(), "two");
  EXPECT_EQ(list_dir(folder_).value(), std::vector<std::string>{"a"});  // no temporary file is left
  struct stat info;
  ASSERT_EQ(::stat(in("a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(FileTest, FailedWriteKeepsTheOldFileAndNamesPathAndReason) {
  EXPECT_EQ(write_file_atomic(in("no/such/folder"), "x").error().message,
            in("no/such/folder") + ": No such file or directory");
  ASSERT_TRUE(make_dirs(in("d")));
  EXPECT_FALSE(write_file_atomic(in("d"), "x"));  // a folder is in the way of the rename
  EXPECT_EQ(list_dir(folder_).value(), std::vector<std::string>{"d"});
  ::rmdir(in("d").c_str());
}

TEST_F(FileTest, FullDeviceIsAnError) {
  const int fd = ::open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write_all(fd, "x", "there").error().message, "there: No space left on device");
  ::close(fd);
}

TEST_F(FileTest, MakesFoldersOnceAndSaysWhatIsInTheWay) {
  EXPECT_TRUE(make_dirs(in("x")));
  EXPECT_TRUE(make_dirs(in("x/")));
  ASSERT_TRUE(write_file_atomic(in("f"), ""));
  EXPECT_EQ(make_dirs(in("f/g")).error().message, in("f") + ": File exists");
  ::rmdir(in("x").c_str());
}

TEST_F(FileTest, RemovesAFlatFolderButFollowsNoLink) {
  ASSERT_TRUE(make_dirs(in("x")));
  ASSERT_TRUE(write_file_atomic(in("keep"), "k"));
  ASSERT_TRUE(write_file_atomic(in("x/a"), ""));
  ASSERT_EQ(::symlink(in("keep").c_str(), in("x/l").c_str()), 0);
  ASSERT_EQ(::symlink(in("x").c_str(), in("link").c_str()), 0);
  remove_flat_dir(in("link"));
  EXPECT_TRUE(is_dir(in("x")));
  remove_flat_dir(in("x"));
  EXPECT_FALSE(is_dir(in("x")));
  EXPECT_EQ(read_file(in("keep")).value(), "k");
}

TEST_F(FileTest, LogIsBoundedAndSilentWithoutAPlace) {
  Log nowhere("/no/such/folder/log");
  nowhere.line("lost");
  {
    Log log(in("log"));
    for (uint32_t i = 0; i < Log::kMaxLines + 50; ++i) log.line("x");
  }
  const std::string text = read_file(in("log")).value();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), static_cast<long>(Log::kMaxLines));
  EXPECT_TRUE(text.ends_with("(the rest is left out)\n"));
}

}  // namespace
}  // namespace stepscope
