// A folder of its own for one test, removed with everything in it.
#pragma once

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace stepscope::testing {

class ScratchFolder {
 public:
  explicit ScratchFolder(const std::string& parent = "/tmp") {
    std::string name = parent + "/ss-test-XXXXXX";
    if (::mkdtemp(name.data())) path_ = name;
  }
  ~ScratchFolder() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

  // Puts a tmpfs of its own here, in a mount namespace of the calling process: call it in a child (child.h). False
  // where that is not allowed. `options` as in mount(8): "size=1m".
  bool mount_tmpfs(const char* options) {
    if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, options) == 0;
    return mounted_;
  }

  uint64_t free_bytes() const {
    struct statvfs fs;
    return ::statvfs(path_.c_str(), &fs) == 0 ? uint64_t{fs.f_bavail} * fs.f_frsize : 0;
  }

 private:
  std::string path_;
  bool mounted_ = false;
};

}  // namespace stepscope::testing
