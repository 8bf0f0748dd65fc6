// A pipeline- and data-parallel job in miniature, replayed the slow way: every operation looks up by name what it waits
// for and whom it meets, and times are raised until nothing moves. Written from the rules alone, so that it can judge the
// replay of src/replay. One chunk per stage, no overlap of gradient reduction.
#pragma once

#include <algorithm>
#include <compare>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "replay/trace_csv.h"

namespace stepscope::examples {

using replay::OpType;

struct NaiveOp {
  int step = 0, dp = 0, stage = 0;
  OpType type = OpType::kGc;
  int seq = 0;
  auto operator<=>(const NaiveOp&) const = default;
};

struct NaiveJob {
  int stages = 2, dp_size = 2, steps = 1, microbatches = 2;
  std::function<double(const NaiveOp&)> work_s = [](const NaiveOp&) { return 1.0; };
  std::function<double(const NaiveOp&)> gap_s = [](const NaiveOp&) { return 0.0; };

  std::vector<NaiveOp> ops() const {
    std::vector<NaiveOp> out;
    for (int step = 0; step < steps; ++step) {
      for (int dp = 0; dp < dp_size; ++dp) {
        for (int stage = 0; stage < stages; ++stage) {
          for (size_t type = 0; type < replay::kOpTypes; ++type) {
            const auto t = static_cast<OpType>(type);
            for (int seq = 0; seq < count(stage, t); ++seq) out.push_back({step, dp, stage, t, seq});
          }
        }
      }
    }
    return out;
  }

  struct Times {
    std::map<NaiveOp, double> start, end;
    std::vector<double> step_s;
  };

  // With `work` for every operation, and the gaps when asked.
  Times times(const std::function<double(const NaiveOp&)>& work, bool with_gaps) const {
    Times out;
    out.step_s.assign(static_cast<size_t>(steps), 0);
    const std::vector<NaiveOp> all = ops();
    for (bool moved = true; moved;) {
      moved = false;
      for (const NaiveOp& op : all) {
        double start = 0;
        for (const NaiveOp& before : waits_for(op)) start = std::max(start, out.end[before]);
        out.start[op] = start + (with_gaps ? gap_s(op) : 0);
      }
      for (const NaiveOp& op : all) {
        double t0 = out.start[op];
        for (const NaiveOp& peer : meets(op)) t0 = std::max(t0, out.start[peer]);
        const double end = t0 + work(op);
        if (end != out.end[op]) out.end[op] = end, moved = true;
      }
    }
    for (const NaiveOp& op : all) out.step_s[static_cast<size_t>(op.step)] = std::max(out.step_s[static_cast<size_t>(op.step)], out.end[op]);
    return out;
  }

  // As a profiler would have recorded it; step s is labelled 10 + 3 s, ranks are stage × dp_size + dp.
  std::vector<replay::TraceRow> rows() const {
    const Times recorded = times(work_s, true);
    std::vector<replay::TraceRow> out;
    for (const auto& [op, start] : recorded.start) {
      const bool compute = op.type == OpType::kForwardCompute || op.type == OpType::kBackwardCompute;
      const bool collective = op.type == OpType::kParamsAllGather || op.type == OpType::kGradsReduceScatter;
      out.push_back({.type = op.type, .step = 10 + 3 * op.step, .dp_rank = op.dp, .stage = op.stage, .rank = op.stage * dp_size + op.dp,
                     .seq_id = op.seq, .model_chunk = compute || collective ? 0 : -1, .global_chunk = compute ? op.stage : -1,
                     .start_s = start, .duration_s = recorded.end.at(op) - start});
    }
    return out;
  }

 private:
  int count(int stage, OpType type) const {
    const bool first = stage == 0, last = stage == stages - 1;
    switch (type) {
      case OpType::kForwardCompute: case OpType::kBackwardCompute: return microbatches;
      case OpType::kForwardSend: case OpType::kBackwardRecv: return last ? 0 : microbatches;
      case OpType::kForwardRecv: case OpType::kBackwardSend: return first ? 0 : microbatches;
      case OpType::kSeparateGradsAllReduce: return 0;
      case OpType::kEmbeddingAllReduce: return first || last ? 1 : 0;
      default: return 1;
    }
  }

  // One forward, one backward, after as many forwards as there are stages behind.
  std::vector<NaiveOp> schedule(const NaiveOp& like) const {
    std::vector<NaiveOp> out;
    int forward = 0, backward = 0;
    while (backward < microbatches) {
      const bool is_forward = forward < microbatches && forward - backward < stages - like.stage;
      NaiveOp op = like;
      op.type = is_forward ? OpType::kForwardCompute : OpType::kBackwardCompute;
      op.seq = is_forward ? forward++ : backward++;
      out.push_back(op);
    }
    return out;
  }

  std::vector<NaiveOp> waits_for(const NaiveOp& op) const {
    std::vector<NaiveOp> out;
    const auto at = [&](OpType type, int seq) {
      NaiveOp other = op;
      other.type = type, other.seq = seq;
      if (seq >= 0 && seq < count(op.stage, type)) out.push_back(other);
    };
    const auto own = schedule(op);
    const auto first_backward = std::ranges::find(own, OpType::kBackwardCompute, &NaiveOp::type);
    const auto place = std::ranges::find(own, op);
    if (place != own.end() && place != own.begin()) out.push_back(*(place - 1));
    const bool opens_backward = op.seq == 0 && (op.type == OpType::kBackwardSend || op.type == OpType::kBackwardRecv);
    if (opens_backward && first_backward - own.begin() >= 2) out.push_back(*(first_backward - 2));
    switch (op.type) {
      case OpType::kForwardCompute:
        at(OpType::kForwardRecv, op.seq);
        if (op.seq == 0 && dp_size > 1) at(OpType::kParamsAllGather, 0);
        break;
      case OpType::kBackwardCompute: at(OpType::kBackwardRecv, op.seq); break;
      case OpType::kForwardSend: at(OpType::kForwardCompute, op.seq), at(op.type, op.seq - 1); break;
      case OpType::kBackwardSend: at(OpType::kBackwardCompute, op.seq), at(op.type, op.seq - 1); break;
      case OpType::kForwardRecv: at(OpType::kForwardCompute, op.seq - 1), at(op.type, op.seq - 1); break;
      case OpType::kBackwardRecv: at(OpType::kBackwardCompute, op.seq - 1), at(op.type, op.seq - 1); break;
      case OpType::kGc: out.push_back(own.back()); break;
      case OpType::kLayernormAllReduce: at(OpType::kGc, 0); break;
      case OpType::kEmbeddingAllReduce: at(OpType::kLayernormAllReduce, 0); break;
      case OpType::kGradsReduceScatter:
        at(count(op.stage, OpType::kEmbeddingAllReduce) ? OpType::kEmbeddingAllReduce : OpType::kLayernormAllReduce, 0);
        if (dp_size > 1) at(OpType::kParamsAllGather, 0);
        break;
      case OpType::kClip: at(OpType::kGradsReduceScatter, 0); break;
      case OpType::kOptimizer: at(OpType::kClip, 0); break;
      default: break;
    }
    return out;
  }

  std::vector<NaiveOp> meets(const NaiveOp& op) const {
    std::vector<NaiveOp> out;
    const auto at = [&](int dp, int stage, OpType type) {
      if (count(stage, type)) out.push_back({op.step, dp, stage, type, op.seq});
    };
    switch (op.type) {
      case OpType::kForwardSend: at(op.dp, op.stage + 1, OpType::kForwardRecv); break;
      case OpType::kForwardRecv: at(op.dp, op.stage - 1, OpType::kForwardSend); break;
      case OpType::kBackwardSend: at(op.dp, op.stage - 1, OpType::kBackwardRecv); break;
      case OpType::kBackwardRecv: at(op.dp, op.stage + 1, OpType::kBackwardSend); break;
      case OpType::kParamsAllGather: case OpType::kGradsReduceScatter:
        for (int dp = 0; dp < dp_size; ++dp) at(dp, op.stage, op.type);
        break;
      case OpType::kEmbeddingAllReduce: at(op.dp, 0, op.type), at(op.dp, stages - 1, op.type); break;
      case OpType::kClip:
        for (int dp = 0; dp < dp_size; ++dp) {
          for (int stage = 0; stage < stages; ++stage) at(dp, stage, op.type);
        }
        break;
      default: break;
    }
    return out;
  }
};

}  // namespace stepscope::examples
