// Traces from anywhere: refused in one line, or judged with figures that are numbers. Inputs are texts, or (first byte
// odd) lists of changes to a good trace.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "../../tests/support/changes.h"
#include "../../tests/support/naive_job.h"
#include "../../tests/support/one_line.h"
#include "replay/cause.h"
#include "replay/slowdown.h"

namespace {

using namespace stepscope;

std::string good_trace() {
  std::string out = "dp_rank,stage,rank,step,optype,start_ts,duration,seq_id,mc,mb_id,gmc\n";
  for (const auto& r : examples::NaiveJob{.stages = 2, .dp_size = 2, .steps = 2, .microbatches = 2}.rows()) {
    for (const int number : {r.dp_rank, r.stage, r.rank, r.step}) out += std::to_string(number) + ",";
    out += std::string(name(r.type)) + "," + std::to_string(r.start_s) + "," + std::to_string(r.duration_s);
    for (const int number : {r.seq_id, r.model_chunk, -1, r.global_chunk}) out += "," + std::to_string(number);
    out += "\n";
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const std::string good = good_trace();
  const std::string text = data[0] & 1 ? examples::changed(good, data + 1, size - 1)
                                       : std::string(reinterpret_cast<const char*>(data + 1), size - 1);
  const auto rows = replay::parse_trace_csv(text, "fuzz");
  if (!rows) return examples::expect_one_line(rows.error()), 0;
  const auto trace = replay::make_op_trace(*rows, "fuzz");
  if (!trace) return examples::expect_one_line(trace.error()), 0;
  const auto slowdown = replay::judge_slowdown(*trace, "fuzz");
  if (!slowdown) return examples::expect_one_line(slowdown.error()), 0;
  if (!std::isfinite(slowdown->slowdown) || slowdown->steps.size() != trace->steps.size()) std::abort();
  (void)replay::judge_cause(*slowdown);
  return 0;
}
