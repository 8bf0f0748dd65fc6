#include "agent/ring_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include "base/file.h"

namespace stepscope {
namespace {
constexpr uint64_t kScanNs = 1'000'000'000;
}

RingWatch::RingWatch(std::string folder, std::string suffix) : folder_(std::move(folder)), suffix_(std::move(suffix)) {
  if (folder_.empty()) return;
  inotify_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (inotify_ && ::inotify_add_watch(inotify_.get(), folder_.c_str(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) < 0) {
    inotify_.reset();
  }
}

std::vector<std::string> RingWatch::poll(uint64_t now_ns) {
  std::vector<std::string> fresh;
  if (folder_.empty()) return fresh;
  bool changed = false;
  char events[4096];
  while (inotify_ && ::read(inotify_.get(), events, sizeof events) > 0) changed = true;
  if (!changed && now_ns < next_scan_ns_) return fresh;
  next_scan_ns_ = now_ns + kScanNs;
  auto names = list_dir(folder_);
  if (!names) return fresh;
  std::set<std::string> present;
  for (const std::string& name : *names) {
    if (!name.ends_with(suffix_) || name.starts_with(".") || present.size() >= kMaxRings) continue;
    std::string path = path_join(folder_, name);
    if (!seen_.contains(path)) fresh.push_back(path);
    present.insert(std::move(path));
  }
  seen_ = std::move(present);
  return fresh;
}

}  // namespace stepscope
