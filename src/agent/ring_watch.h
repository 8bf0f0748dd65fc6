// Finds what the processes of a run leave in its shared-memory folder: *.ring files, or those with another suffix. Each
// is reported once.
// inotify makes it prompt; where that is not to be had, the folder is listed once a second. One thread. Remembers at
// most kMaxRings names, those that are there: files that are gone make room.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"

namespace stepscope {

class RingWatch {
 public:
  static constexpr size_t kMaxRings = 4096;

  RingWatch() = default;
  explicit RingWatch(std::string folder, std::string suffix = ".ring");

  int fd() const { return inotify_.get(); }  // readable when the folder changed; -1 = none

  // Paths that are new since the last call. Lists the folder only when it changed or a second has passed.
  std::vector<std::string> poll(uint64_t now_ns);

  // A file that was gone may come again under its name.
  void forget(const std::string& path) { seen_.erase(path); }

 private:
  std::string folder_, suffix_;
  Fd inotify_;
  std::set<std::string> seen_;
  uint64_t next_scan_ns_ = 0;
};

}  // namespace stepscope
