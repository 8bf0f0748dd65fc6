// A whole trace in matrices: operation names × lanes. A name is (type, sequence number, stage); a lane is one replica
// of the model (data-parallel rank) in one step. Every lane holds the same names, else there is no trace: a missing or
// doubled operation is named.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/result.h"
#include "replay/trace_csv.h"

namespace stepscope::replay {

struct OpName {
  OpType type = OpType::kForwardCompute;
  int stage = 0;
  int seq_id = 0;
  int model_chunk = -1;  // as in the prototype lane
  int global_chunk = -1;
};
std::string text(const OpName& name);  // "forward-compute 3 of stage 1"

// Rows of `lanes` doubles, one per operation name.
class Matrix {
 public:
  Matrix() = default;
  Matrix(size_t rows, size_t columns) : columns_(columns), values_(rows * columns) {}
  double* row(size_t i) { return values_.data() + i * columns_; }
  const double* row(size_t i) const { return values_.data() + i * columns_; }
  size_t columns() const { return columns_; }

 private:
  size_t columns_ = 0;
  std::vector<double> values_;
};

struct OpTrace {
  std::vector<OpName> names;  // by stage, type, sequence number
  std::vector<int> steps;     // ascending labels
  int dp_size = 0;
  int stages = 0;
  std::vector<int> ranks;      // label of worker (stage, dp): ranks[stage * dp_size + dp]
  Matrix start_s, duration_s;  // lane = index of the step × dp_size + dp; lane 0 is the prototype

  size_t lanes() const { return steps.size() * static_cast<size_t>(dp_size); }
};

// Pure. O(n log n) in time, O(n) in memory, whatever the labels. Failure: one line that names `where` and the
// operation.
Result<OpTrace> make_op_trace(const std::vector<TraceRow>& rows, const std::string& where);

}  // namespace stepscope::replay
