// What one node's agent tells another of its rank processes, as bytes (versioned, bounded, with a check word). A frame
// is made of a head, and for each process what is new of it: who it is, its life, its groups, its steps.
//
// Steps travel as columns (store/column_codec.h), one per figure of step_fields.def and part of a step, so that a
// figure costs next to nothing while it does not change. Durations of the ledger and of stalls are told in
// microseconds; where in the step a stall lay is not told: all own time comes first, as in a step that comes from a run
// file.
//
// Plain values and pure functions. Failure: encoding cuts lists that are longer than the bounds; decoding trusts no
// byte, its memory is bounded by kMaxValues, and what does not fit is an Error.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "align/rank_step.h"
#include "align/step_builder.h"
#include "base/result.h"
#include "blackbox/ring_reader.h"

namespace stepscope {

struct RankNews {
  uint64_t process = 0;                                      // the node's own number for it
  std::optional<blackbox::Identity> identity;                // when new or changed
  std::optional<RankLife> life;                              // when new or changed
  std::string ended_thread;                                  // with `life`
  std::vector<std::pair<uint64_t, ProcessGroup>> groups;     // new ones
  std::vector<std::pair<uint64_t, uint64_t>> communicators;  // new ones and their sizes
  std::vector<std::string> facts;                            // new ones
  std::vector<RankStep> steps;
  int64_t active_ns = 0;
  uint64_t optimizer_ends = 0;
  blackbox::ReadStats totals;
  bool ended = false, numbers_certain = true;
};

struct NodeFrame {
  static constexpr uint16_t kVersion = 1;
  static constexpr size_t kMaxRanks = 1024, kMaxSteps = 4096, kMaxOfStep = 4096, kMaxList = 4096;
  static constexpr size_t kMaxText = 4096, kMaxValues = size_t{1} << 21, kMaxBytes = size_t{16} << 20;

  std::string nonce;  // of this start of the node's agent
  std::string hostname;
  uint64_t sequence = 0;  // from 0
  int64_t now_ns = 0;     // CLOCK_MONOTONIC of the node when it was made
  std::vector<RankNews> ranks;
};

std::string encode_frame(const NodeFrame& frame);
Result<NodeFrame> decode_frame(std::string_view bytes);
// The version of a frame whose head is whole; nothing where it is none.
std::optional<uint16_t> frame_version(std::string_view bytes);

}  // namespace stepscope
