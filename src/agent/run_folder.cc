#include "agent/run_folder.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>

#include "base/fd.h"
#include "base/file.h"
#include "base/random_hex.h"

namespace stepscope {
namespace {

constexpr int kMaxSuffix = 100'000;

std::string utc_now(const char* format) {
  const time_t now = ::time(nullptr);
  tm utc;
  gmtime_r(&now, &utc);
  char buffer[64];
  return std::string(buffer, strftime(buffer, sizeof buffer, format, &utc));
}

bool all_zero(const char* bytes, size_t count) {
  return count == 0 || (bytes[0] == 0 && std::equal(bytes + 1, bytes + count, bytes));
}

Status copy_sparse(const std::string& from, const std::string& to) {
  Fd in(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!in) return fail(from + ": " + errno_text(errno));
  Fd out(::open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!out) return fail(to + ": " + errno_text(errno));
  char chunk[65536];
  off_t at = 0;
  for (;;) {
    const ssize_t n = ::pread(in.get(), chunk, sizeof chunk, at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(from + ": " + errno_text(errno));
    if (n == 0) break;
    if (!all_zero(chunk, static_cast<size_t>(n))) {
      if (::lseek(out.get(), at, SEEK_SET) < 0) return fail(to + ": " + errno_text(errno));
      if (Status status = write_all(out.get(), {chunk, static_cast<size_t>(n)}, to); !status) return status;
    }
    at += n;
  }
  if (::ftruncate(out.get(), at) != 0) return fail(to + ": " + errno_text(errno));
  return {};
}

}  // namespace

Result<RunFolder> RunFolder::create(const std::string& logs_dir, const std::string& name) {
  if (Status status = make_dirs(logs_dir, 0700); !status) return std::unexpected(status.error());
  char resolved[PATH_MAX];
  if (!::realpath(logs_dir.c_str(), resolved)) return fail(logs_dir + ": " + errno_text(errno));
  for (int suffix = 1; suffix <= kMaxSuffix; ++suffix) {
    const std::string path = path_join(resolved, suffix == 1 ? name : name + "-" + std::to_string(suffix));
    if (::mkdir(path.c_str(), 0700) == 0) return RunFolder(path);
    if (errno != EEXIST) return fail(path + ": " + errno_text(errno));
  }
  return fail(path_join(resolved, name) + ": too many runs of this name");
}

bool RunFolder::note(const Status& status) {
  if (status) return true;
  if (first_error_.empty()) first_error_ = status.error().message;
  return false;
}

bool RunFolder::write(const std::string& file, std::string_view text) {
  return !path_.empty() && note(write_file_atomic(path_join(path_, file), text));
}

size_t RunFolder::keep_rings(const std::vector<std::string>& rings, size_t max_bytes) {
  if (path_.empty() || rings.empty()) return 0;
  const std::string folder = path_join(path_, "blackbox");
  if (!note(make_dirs(folder, 0700))) return 0;
  size_t copied = 0, spent = 0;
  for (const std::string& ring : rings) {
    struct stat info;
    if (::stat(ring.c_str(), &info) != 0) continue;
    if (spent + static_cast<size_t>(info.st_size) > max_bytes) break;
    const std::string target = path_join(folder, ring.substr(ring.rfind('/') + 1));
    if (!note(copy_sparse(ring, target))) {
      ::unlink(target.c_str());
      break;
    }
    spent += static_cast<size_t>(info.st_size);
    ++copied;
  }
  return copied;
}

std::string made_up_run_name() { return utc_now("run_%Y%m%d_%H%M%S_") + random_hex(2); }
std::string iso_time_now() { return utc_now("%Y-%m-%dT%H:%M:%SZ"); }

}  // namespace stepscope
