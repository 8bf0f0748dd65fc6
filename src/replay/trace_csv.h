// Operation traces as CSV text: a header line, then one operation of one worker in one step per line. Columns may stand
// in any order; further columns are passed over. The text comes from anywhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "replay/op_type.h"

namespace stepscope::replay {

struct TraceRow {
  OpType type = OpType::kForwardCompute;
  int step = 0;           // a label: need not be contiguous
  int dp_rank = 0;        // below 65,536, as the stage
  int stage = 0;          // pipeline rank
  int rank = 0;           // global rank, a label
  int seq_id = 0;         // among the operations of this type on this worker in this step
  int model_chunk = -1;   // within the stage; -1: none
  int global_chunk = -1;  // within the model; -1: none
  double start_s = 0;     // since the earliest start in its step
  double duration_s = 0;  // >= 0, waiting for peers included
};

// Pure; O(text). Failure: one line that names `where`, the line and what is wrong with it.
Result<std::vector<TraceRow>> parse_trace_csv(std::string_view text, const std::string& where);

}  // namespace stepscope::replay
