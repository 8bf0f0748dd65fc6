// Where things are: interpreter, inject folder, shared-memory folder.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include "base/file.h"
#include "cli/python_env.h"
#include "agent/shm_folder.h"

namespace stepscope {
namespace {

class PlacesTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/stepscope-places-XXXXXX";
    root_ = ::mkdtemp(name);
  }
  void TearDown() override { [[maybe_unused]] const int rc = ::system(("rm -rf '" + root_ + "'").c_str()); }
  void touch(const std::string& path, mode_t mode = 0600) {
    ASSERT_TRUE(make_dirs(path.substr(0, path.rfind('/'))));
    ASSERT_TRUE(write_file_atomic(path, "", mode));
  }

  std::string root_;
};

TEST_F(PlacesTest, InterpreterBesideTheBinaryElsePath) {
  EXPECT_EQ(find_python(root_ + "/bin/stepscope"), "python3");
  touch(root_ + "/bin/python3", 0700);
  EXPECT_EQ(find_python(root_ + "/bin/stepscope"), root_ + "/bin/python3");
  touch(root_ + "/bin/python", 0700);
  EXPECT_EQ(find_python(root_ + "/bin/stepscope"), root_ + "/bin/python");
  EXPECT_EQ(find_python(""), "python3");
}

TEST_F(PlacesTest, InjectFolderInstalledThenCheckoutThenByHint) {
  const std::string binary = root_ + "/v/bin/stepscope";
  EXPECT_EQ(find_inject_folder(binary, ""), "");
  touch(root_ + "/python/stepscope/_inject/sitecustomize.py");
  EXPECT_EQ(find_inject_folder(binary, ""), root_ + "/python/stepscope/_inject");
  touch(root_ + "/v/lib64/python3.12/site-packages/stepscope/_inject/sitecustomize.py");
  EXPECT_EQ(find_inject_folder(binary, ""), root_ + "/v/lib64/python3.12/site-packages/stepscope/_inject");
  for (const char* hint : {"/python", "/python/stepscope", "/python/stepscope/_inject"}) {
    EXPECT_EQ(find_inject_folder(binary, root_ + hint), root_ + "/python/stepscope/_inject") << hint;
  }
  EXPECT_EQ(find_inject_folder(binary, root_ + "/nowhere"), "");
}

TEST_F(PlacesTest, PythonPathHasNoEmptyPart) {
  EXPECT_EQ(python_path("/p/stepscope/_inject", ""), "/p/stepscope/_inject");
  EXPECT_EQ(python_path("/p/stepscope/_inject", "/u:/w"), "/p/stepscope/_inject:/u:/w");
}

TEST_F(PlacesTest, SharedFolderIsPrivateAndGoesAway) {
  auto folder = ShmFolder::create("ab12", root_);
  ASSERT_TRUE(folder);
  struct stat info;
  ASSERT_EQ(::stat(folder->path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  EXPECT_FALSE(ShmFolder::create("ab12", root_));
  const std::string path = folder->path();
  folder->remove();
  EXPECT_FALSE(is_dir(path));
  EXPECT_EQ(ShmFolder::create("x", root_ + "/none").error().message.find(root_), 0u);
}

TEST_F(PlacesTest, AbandonedFoldersAreSweptButNotThoseInUse) {
  const std::string prefix = root_ + "/stepscope-" + std::to_string(::getuid()) + "-";
  auto held = ShmFolder::create("held", root_);
  ASSERT_TRUE(held);
  touch(prefix + "dead/lock");
  touch(prefix + "young/lock");
  touch(root_ + "/stepscope-99999-other/lock");
  const utimbuf old = {1000, 1000};
  for (const std::string& path : {held->path(), prefix + "dead", root_ + "/stepscope-99999-other"})
    ::utime(path.c_str(), &old);
  ASSERT_TRUE(ShmFolder::create("new", root_));
  EXPECT_TRUE(is_dir(held->path()));
  EXPECT_FALSE(is_dir(prefix + "dead"));
  EXPECT_TRUE(is_dir(prefix + "young"));
  EXPECT_TRUE(is_dir(root_ + "/stepscope-99999-other"));
}

}  // namespace
}  // namespace stepscope
