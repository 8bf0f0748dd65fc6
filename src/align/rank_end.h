// How a process ended, where more than one place asks. Pure.
#pragma once

#include <csignal>

#include "align/rank_step.h"

namespace stepscope {

// Ctrl-C reached it, as the exception that Python makes of one.
inline bool keyboard_interrupt(const RankLife& life) { return life.exception.starts_with("KeyboardInterrupt"); }

// Somebody told this process to end (kill, Ctrl-C), and that is how it ended.
inline bool told_to_end(const RankLife& life) {
  return life.exit_signal == SIGTERM || life.exit_signal == SIGINT || keyboard_interrupt(life);
}

}  // namespace stepscope
