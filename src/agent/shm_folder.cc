#include "agent/shm_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "base/file.h"

namespace stepscope {
namespace {

constexpr time_t kAbandonedSeconds = 3600;
constexpr size_t kMaxSwept = 64;

std::string folder_prefix() { return "stepscope-" + std::to_string(::getuid()) + "-"; }

void sweep(const std::string& root, const std::string& prefix) {
  auto names = list_dir(root);
  if (!names) return;
  size_t looked_at = 0;
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix) || ++looked_at > kMaxSwept) continue;
    const std::string folder = path_join(root, name);
    struct stat info;
    if (::lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::getuid()) continue;
    if (::time(nullptr) - info.st_mtime < kAbandonedSeconds) continue;
    Fd lock(::open(path_join(folder, "lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) remove_flat_dir(folder);
  }
}

}  // namespace

Fd hold_shm_lock(const std::string& folder) {
  Fd lock(::open(path_join(folder, "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0) lock.reset();
  return lock;
}

std::string ShmFolder::path_of(const std::string& nonce, const std::string& root) {
  return path_join(root, folder_prefix() + nonce);
}

Result<ShmFolder> ShmFolder::create(const std::string& nonce, const std::string& root) {
  sweep(root, folder_prefix());
  ShmFolder folder;
  folder.path_ = path_of(nonce, root);
  if (::mkdir(folder.path_.c_str(), 0700) != 0) return fail(folder.path_ + ": " + errno_text(errno));
  folder.lock_ = hold_shm_lock(folder.path_);
  return folder;
}

void ShmFolder::remove() {
  if (!path_.empty()) remove_flat_dir(path_);
  path_.clear();
  lock_.reset();
}

}  // namespace stepscope
