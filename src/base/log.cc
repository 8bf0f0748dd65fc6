#include "base/log.h"

#include <fcntl.h>

#include <cstdio>
#include <ctime>

#include "base/clock.h"
#include "base/file.h"

namespace stepscope {

void Log::line(std::string_view text) {
  if (path_.empty() || ++lines_ > kMaxLines) return;
  if (!fd_) {
    fd_.reset(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd_) {
      path_.clear();
      return;
    }
  }
  const uint64_t now_ns = realtime_ns();
  const auto seconds = static_cast<time_t>(now_ns / 1'000'000'000);
  tm utc;
  gmtime_r(&seconds, &utc);
  char stamp[40];
  const size_t used = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &utc);
  snprintf(stamp + used, sizeof stamp - used, ".%03uZ ", static_cast<unsigned>(now_ns / 1'000'000 % 1000));
  std::string line(stamp);
  line.append(text);
  if (lines_ == kMaxLines) line += " (the rest is left out)";
  line += '\n';
  (void)write_all(fd_.get(), line, path_);
}

}  // namespace stepscope
