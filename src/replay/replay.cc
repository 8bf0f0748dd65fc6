#include "replay/replay.h"

#include <algorithm>
#include <cmath>

namespace stepscope::replay {
namespace {

constexpr double kImpossibleS = -10e-3;

// t0[lane] becomes the latest over the data-parallel ranks of its step.
void latest_in_step(std::vector<double>& t0, size_t dp_size) {
  for (size_t step = 0; step < t0.size(); step += dp_size) {
    const auto first = t0.begin() + static_cast<std::ptrdiff_t>(step),
               end = first + static_cast<std::ptrdiff_t>(dp_size);
    std::fill(first, end, *std::max_element(first, end));
  }
}

void raise_to(std::vector<double>& t0, const double* row) {
  for (size_t lane = 0; lane < t0.size(); ++lane) t0[lane] = std::max(t0[lane], row[lane]);
}

// Ends of all operations by the replay.
Matrix replay_ends_s(const OpTrace& trace, const OpGraph& graph, const Matrix& work_s, const Matrix* gap_s) {
  const size_t lanes = trace.lanes();
  Matrix end_s(trace.names.size(), lanes);
  std::vector<double> t0(lanes), start(lanes);
  for (const OpNode& node : graph.nodes) {
    std::ranges::fill(t0, -HUGE_VAL);
    for (const OpIndex op : node.members) {
      std::ranges::fill(start, graph.before[op].empty() ? 0.0 : -HUGE_VAL);
      for (const OpIndex before : graph.before[op]) raise_to(start, end_s.row(before));
      for (size_t lane = 0; gap_s && lane < lanes; ++lane) start[lane] += gap_s->row(op)[lane];
      raise_to(t0, start.data());
    }
    if (node.sync_point == SyncPoint::kStep) latest_in_step(t0, static_cast<size_t>(trace.dp_size));
    for (const OpIndex op : node.members) {
      const double* work = work_s.row(op);
      double* end = end_s.row(op);
      for (size_t lane = 0; lane < lanes; ++lane) end[lane] = t0[lane] + work[lane];
    }
  }
  return end_s;
}

}  // namespace

Work split_work(const OpTrace& trace, const OpGraph& graph) {
  const size_t lanes = trace.lanes();
  Work out;
  out.work_s = trace.duration_s;
  std::vector<double> t0(lanes);
  for (const OpNode& node : graph.nodes) {
    if (node.sync_point == SyncPoint::kNone) continue;
    std::ranges::fill(t0, -HUGE_VAL);
    for (const OpIndex op : node.members) raise_to(t0, trace.start_s.row(op));
    if (node.sync_point == SyncPoint::kStep) latest_in_step(t0, static_cast<size_t>(trace.dp_size));
    for (const OpIndex op : node.members) {
      double* work = out.work_s.row(op);
      const double *start = trace.start_s.row(op), *duration = trace.duration_s.row(op);
      for (size_t lane = 0; lane < lanes; ++lane) {
        work[lane] = start[lane] + duration[lane] - t0[lane];
        if (work[lane] >= 0) continue;
        if (work[lane] < out.least_s) out.least_s = work[lane], out.worst = op;
        if (work[lane] <= kImpossibleS) ++out.impossible, work[lane] = 0;
      }
    }
  }
  return out;
}

std::vector<double> replay_steps_s(const OpTrace& trace, const OpGraph& graph, const Matrix& work_s,
                                   const Matrix* gap_s) {
  const Matrix end_s = replay_ends_s(trace, graph, work_s, gap_s);
  const auto dp_size = static_cast<size_t>(trace.dp_size);
  std::vector<double> steps(trace.steps.size(), -HUGE_VAL);
  for (OpIndex op = 0; op < trace.names.size(); ++op) {
    if (trace.names[op].type != OpType::kOptimizer) continue;
    const double* end = end_s.row(op);
    for (size_t lane = 0; lane < trace.lanes(); ++lane)
      steps[lane / dp_size] = std::max(steps[lane / dp_size], end[lane]);
  }
  return steps;
}

std::vector<double> recorded_steps_s(const OpTrace& trace) {
  const auto dp_size = static_cast<size_t>(trace.dp_size);
  std::vector<double> first(trace.steps.size(), HUGE_VAL), last(trace.steps.size(), -HUGE_VAL);
  for (OpIndex op = 0; op < trace.names.size(); ++op) {
    const double *start = trace.start_s.row(op), *duration = trace.duration_s.row(op);
    for (size_t lane = 0; lane < trace.lanes(); ++lane) {
      first[lane / dp_size] = std::min(first[lane / dp_size], start[lane]);
      last[lane / dp_size] = std::max(last[lane / dp_size], start[lane] + duration[lane]);
    }
  }
  for (size_t step = 0; step < last.size(); ++step) last[step] -= first[step];
  return last;
}

double closure_error_s(const OpTrace& trace, const OpGraph& graph, const Work& work) {
  const size_t lanes = trace.lanes();
  Matrix gap_s(trace.names.size(), lanes);
  for (OpIndex op = 0; op < trace.names.size(); ++op) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      double ready = graph.before[op].empty() ? 0 : -HUGE_VAL;
      for (const OpIndex before : graph.before[op]) {
        ready = std::max(ready, trace.start_s.row(before)[lane] + trace.duration_s.row(before)[lane]);
      }
      const double gap = trace.start_s.row(op)[lane] - ready;
      gap_s.row(op)[lane] = gap <= kImpossibleS ? 0 : gap;
    }
  }
  const Matrix end_s = replay_ends_s(trace, graph, work.work_s, &gap_s);
  double worst = 0;
  for (OpIndex op = 0; op < trace.names.size(); ++op) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      const double recorded = trace.start_s.row(op)[lane] + trace.duration_s.row(op)[lane];
      worst = std::max(worst, std::abs(end_s.row(op)[lane] - recorded));
    }
  }
  return worst;
}

}  // namespace stepscope::replay
