#include "base/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace stepscope {

std::string errno_text(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);  // the GNU variant: returns the text
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) return fail(path + ": " + errno_text(errno));
  std::string text;
  char buffer[16384];
  while (text.size() < max_bytes) {
    const ssize_t n = ::read(fd.get(), buffer, std::min(sizeof buffer, max_bytes - text.size()));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(path + ": " + errno_text(errno));
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

Status write_all(int fd, std::string_view bytes, const std::string& where) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(where + ": " + errno_text(errno));
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status write_file_atomic(const std::string& path, std::string_view bytes, mode_t mode) {
  static std::atomic<unsigned> counter{0};
  const std::string temporary = path + ".tmp-" + std::to_string(::getpid()) + "-" + std::to_string(counter++);
  Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd) return fail(path + ": " + errno_text(errno));
  Status status = write_all(fd.get(), bytes, path);
  // close() reports what NFS and quotas held back until now.
  if (::close(fd.release()) != 0 && status) status = fail(path + ": " + errno_text(errno));
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) status = fail(path + ": " + errno_text(errno));
  if (!status) ::unlink(temporary.c_str());
  return status;
}

Status make_dirs(const std::string& path, mode_t mode) {
  for (size_t end = 1; end <= path.size(); ++end) {
    if (end != path.size() && path[end] != '/') continue;
    const std::string part = path.substr(0, end);
    if (::mkdir(part.c_str(), mode) == 0) continue;
    if (const int error = errno; !is_dir(part)) return fail(part + ": " + errno_text(error));
  }
  return {};
}

Result<std::vector<std::string>> list_dir(const std::string& path, size_t max_entries) {
  DIR* dir = ::opendir(path.c_str());
  if (!dir) return fail(path + ": " + errno_text(errno));
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (names.size() >= max_entries) break;
    names.emplace_back(name);
  }
  ::closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

void remove_flat_dir(const std::string& path) {
  Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!dir) return;
  if (auto names = list_dir(path)) {
    for (const std::string& name : *names) ::unlinkat(dir.get(), name.c_str(), 0);
  }
  ::rmdir(path.c_str());
}

bool is_file(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_dir(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string path_join(std::string_view folder, std::string_view name) {
  std::string path(folder);
  if (!path.empty() && path.back() != '/') path += '/';
  return path += name;
}

}  // namespace stepscope
