// Processes that say by their environment which rank they are, before they have shown any evidence of being one: from
// the start of their interpreter until their black box opens (torch is imported), or until they have failed.
//
// Each leaves "<pid>.start" in the shared folder (python/stepscope/_inject/sitecustomize.py): a line "rank local_rank
// world_size restarts start_ticks launcher_pid", "-" = not set. One that ends by an exception adds it: a line, and the
// frames below it. A process without a rank leaves a note only then. Notes are untrusted: bounded, and every field is
// checked.
//
// One thread, never waits. Cost: a look at the folder when it changed, a poll per process that is followed; nothing
// once the black boxes are open.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/pid_watch.h"
#include "agent/ring_watch.h"
#include "align/rank_step.h"
#include "base/result.h"

namespace stepscope {

struct StartNote {
  int rank = -1, local_rank = -1, world_size = 0, restarts = 0, launcher_pid = 0;
  uint64_t start_ticks = 0;
  std::string exception, frames;
};
// Nothing: it is no such note.
std::optional<StartNote> parse_start_note(const std::string& text);

class StartWatch {
 public:
  static constexpr size_t kMaxNoteBytes = 8192;

  StartWatch() = default;
  explicit StartWatch(std::string folder);

  int fd() const { return epoll_.get(); }  // readable when there is something to look at; -1 = none

  // Takes up who has come, lets go who has a black box (`has_ring`) or is gone. Returns those that failed since the
  // last call, as lives that ended before their first step.
  std::vector<RankLife> look(const std::function<bool(int pid)>& has_ring, uint64_t now_ns);

  // Those that start now; process_start_ns is when they were first seen.
  std::vector<RankLife> starting() const;
  // It started processes that say that they are ranks: whatever it says of itself, it is none.
  bool launches(int pid) const { return launchers_.contains(pid); }
  // The exception by which a process without a rank ended; nothing: none was told.
  std::optional<RankLife> exception_of(int pid) const;

 private:
  struct Starter {
    RankLife life;
    PidWatch watch;
    std::string path;
    bool gone = false;  // as of the last look; its black box may have come after that look at the folder
  };
  void take_up(const std::string& path, uint64_t now_ns);

  RingWatch notes_;
  Fd epoll_;
  std::map<int, Starter> starters_;       // by pid
  std::map<int, uint64_t> launchers_;     // pid, when it was told
  std::map<int, RankLife> without_rank_;  // failed, by pid
};

}  // namespace stepscope
