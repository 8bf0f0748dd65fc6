// Lays what is known of a process into its life: what it says of itself, how it ended.
#pragma once

#include <sys/wait.h>

#include <algorithm>
#include <cstdint>

#include "align/rank_step.h"
#include "blackbox/ring_reader.h"

namespace stepscope {

inline void lay_identity(const blackbox::Identity& who, RankLife& life) {
  life.rank = who.rank;
  life.local_rank = who.local_rank;
  life.world_size = std::max(who.world_size, 0);
  life.node_rank = std::max(who.node_rank, 0);
  life.attempt = std::max(who.attempt, 0);
  life.pid = who.pid;
  life.hostname = who.hostname;
  life.process_start_ns = static_cast<int64_t>(who.process_start_ns);
}

inline void lay_exit(int wait_status, RankLife& life) {
  life.exit_signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  life.exit_code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

}  // namespace stepscope
