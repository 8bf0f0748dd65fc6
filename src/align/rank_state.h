// The state of a rank: one vocabulary for snapshot, summary and run file.
#pragma once

#include <cstdint>
#include <string_view>

#include "align/rank_step.h"
#include "align/word.h"

namespace stepscope {

// enumerator, spelling, ended badly, meaning
// clang-format off
#define STEPSCOPE_RANK_STATES(X)                                                                \
  X(kNotSeen, "not_seen", false)    /* expected, but no process of it was seen */               \
  X(kRunning, "running", false)                                                                 \
  X(kFinished, "finished", false)   /* went through its exit handlers */                        \
  X(kStopped, "stopped", false)     /* told to stop from outside (Ctrl-C, SIGTERM): no loss */  \
  X(kException, "exception", true)  /* left by an exception that nobody caught */               \
  X(kLost, "lost", true)            /* died without a word */                                   \
  X(kHung, "hung", true)            /* alive, and makes no progress */
// clang-format on

enum class RankState : uint8_t {
  kNone,
#define X(id, text, bad) id,
  STEPSCOPE_RANK_STATES(X)
#undef X
      kOther,
};

constexpr std::string_view spelling(RankState state) {
  switch (state) {
#define X(id, text, bad) \
  case RankState::id: return text;
    STEPSCOPE_RANK_STATES(X)
#undef X
    default: return "";
  }
}

constexpr RankState from_spelling(RankState, std::string_view text) {
  if (text.empty()) return RankState::kNone;
#define X(id, word, bad) \
  if (text == word) return RankState::id;
  STEPSCOPE_RANK_STATES(X)
#undef X
  return RankState::kOther;
}

constexpr bool ended_badly(RankState state) {
  switch (state) {
#define X(id, text, bad) \
  case RankState::id: return bad;
    STEPSCOPE_RANK_STATES(X)
#undef X
    default: return false;
  }
}

// An exception of a process that is still there may yet be caught up with: it runs until it has ended.
inline RankState state_of(const RankLife& life) {
  if (!life.ended) return RankState::kRunning;
  if (life.stopped) return RankState::kStopped;
  if (!life.exception.empty()) return RankState::kException;
  return life.clean_exit ? RankState::kFinished : RankState::kLost;
}

}  // namespace stepscope
