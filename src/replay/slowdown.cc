#include "replay/slowdown.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

namespace stepscope::replay {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

class Judge {
 public:
  Judge(const OpTrace& trace, const OpGraph& graph) : trace_(trace), graph_(graph), work_(split_work(trace, graph)) {}

  Slowdown judge() {
    find_ideals();
    base_figures();
    groups();
    workers();
    shares();
    return std::move(out_);
  }

 private:
  using Chosen = std::function<bool(const OpName& name, int dp_rank)>;

  size_t lanes() const { return trace_.lanes(); }
  double ideal(OpIndex op) const { return *out_.ideal_s_by_type[static_cast<size_t>(trace_.names[op].type)]; }

  // Pooled over all steps, stages and data-parallel ranks: an uneven partition counts as straggling.
  void find_ideals() {
    std::array<std::vector<double>, kOpTypes> pools;
    for (OpIndex op = 0; op < trace_.names.size(); ++op) {
      std::vector<double>& pool = pools[static_cast<size_t>(trace_.names[op].type)];
      pool.insert(pool.end(), work_.work_s.row(op), work_.work_s.row(op) + lanes());
    }
    for (size_t type = 0; type < kOpTypes; ++type) {
      if (pools[type].empty()) continue;
      out_.ideal_s_by_type[type] =
          is_communication(static_cast<OpType>(type)) ? median(pools[type]) : mean(pools[type]);
    }
  }

  // Recorded work where `recorded` says so, ideal elsewhere.
  std::vector<double> replayed(const Chosen& recorded) const {
    Matrix mixed(trace_.names.size(), lanes());
    const auto dp_size = static_cast<size_t>(trace_.dp_size);
    for (OpIndex op = 0; op < trace_.names.size(); ++op) {
      for (size_t dp = 0; dp < dp_size; ++dp) {
        const bool keep = recorded(trace_.names[op], static_cast<int>(dp));
        for (size_t lane = dp; lane < lanes(); lane += dp_size)
          mixed.row(op)[lane] = keep ? work_.work_s.row(op)[lane] : ideal(op);
      }
    }
    return replay_steps_s(trace_, graph_, mixed);
  }

  void base_figures() {
    const std::vector<double> recorded = recorded_steps_s(trace_);
    const std::vector<double> replay = replay_steps_s(trace_, graph_, work_.work_s);
    ideal_steps_s_ = replayed([](const OpName&, int) { return false; });
    out_.recorded_s = mean(recorded);
    out_.replayed_s = mean(replay);
    out_.ideal_s = mean(ideal_steps_s_);
    out_.slowdown = out_.replayed_s / out_.ideal_s;
    out_.launch = out_.recorded_s / out_.replayed_s;
    for (size_t i = 0; i < replay.size(); ++i) {
      out_.steps.push_back({trace_.steps[i], recorded[i], replay[i], replay[i] / ideal_steps_s_[i]});
    }
    out_.operations = trace_.names.size() * lanes();
    out_.impossible_splits = work_.impossible;
    out_.least_split_s = work_.least_s;
    if (work_.worst) out_.worst_split = text(trace_.names[*work_.worst]);
    out_.closure_error_s = closure_error_s(trace_, graph_, work_);
  }

  GroupFigure group(std::string name, const Chosen& members) const {
    GroupFigure figure{std::move(name), 1, replayed(members)};
    figure.slowdown = mean(figure.by_step) / out_.ideal_s;
    for (size_t i = 0; i < figure.by_step.size(); ++i) figure.by_step[i] /= ideal_steps_s_[i];
    return figure;
  }

  void groups() {
    std::vector<std::string_view> types;
    for (size_t type = 0; type < kOpTypes; ++type) {
      const std::string_view shown = figure_name(static_cast<OpType>(type));
      if (out_.ideal_s_by_type[type] && std::ranges::find(types, shown) == types.end()) types.push_back(shown);
    }
    for (const std::string_view type : types) {
      out_.by_type.push_back(
          group(std::string(type), [&](const OpName& name, int) { return figure_name(name.type) == type; }));
    }
    std::ranges::stable_sort(out_.by_type, std::ranges::greater(), &GroupFigure::slowdown);
    for (int stage = 0; stage < trace_.stages; ++stage) {
      out_.by_stage.push_back(
          group("stage " + std::to_string(stage), [&](const OpName& name, int) { return name.stage == stage; }));
    }
    for (int dp = 0; dp < trace_.dp_size; ++dp) {
      out_.by_dp_rank.push_back(
          group("dp rank " + std::to_string(dp), [&](const OpName&, int other) { return other == dp; }));
    }
  }

  void workers() {
    for (int stage = 0; stage < trace_.stages; ++stage) {
      for (int dp = 0; dp < trace_.dp_size; ++dp) {
        const auto at = static_cast<size_t>(stage * trace_.dp_size + dp);
        out_.workers.push_back({trace_.ranks[at], stage, dp,
                                std::min(out_.by_stage[static_cast<size_t>(stage)].slowdown,
                                         out_.by_dp_rank[static_cast<size_t>(dp)].slowdown)});
      }
    }
    std::ranges::sort(out_.workers, [](const WorkerFigure& a, const WorkerFigure& b) {
      return std::tie(b.slowdown, a.rank) < std::tie(a.slowdown, b.rank);
    });
    out_.slowest_count = (3 * out_.workers.size() + 99) / 100;
  }

  double share(const std::vector<double>& fixed_steps_s) const {
    return (out_.replayed_s - mean(fixed_steps_s)) / (out_.replayed_s - out_.ideal_s);
  }

  void shares() {
    if (out_.replayed_s == out_.ideal_s) return;
    if (out_.workers.size() > 1) {
      std::vector<bool> slow(out_.workers.size());
      for (size_t i = 0; i < out_.slowest_count; ++i)
        slow[worker(out_.workers[i].stage, out_.workers[i].dp_rank)] = true;
      out_.shares.slowest_workers =
          share(replayed([&](const OpName& name, int dp) { return !slow[worker(name.stage, dp)]; }));
    }
    if (trace_.stages > 1) {
      out_.shares.last_stage = share(replayed([&](const OpName& name, int) { return name.stage + 1 < trace_.stages; }));
    }
    out_.shares.microbatches = share(replay_steps_s(trace_, graph_, even_microbatches()));
    out_.shares.communication = share(replayed([](const OpName& name, int) { return !is_communication(name.type); }));
  }

  size_t worker(int stage, int dp) const { return static_cast<size_t>(stage * trace_.dp_size + dp); }

  // Each compute takes the mean of its kind on its worker, over all microbatches and steps.
  Matrix even_microbatches() const {
    struct Sum {
      double s = 0;
      size_t count = 0;
    };
    const size_t workers = out_.workers.size();
    std::vector<Sum> sums(2 * workers);
    const auto dp_size = static_cast<size_t>(trace_.dp_size);
    const auto sum_of = [&](const OpName& name, size_t lane) -> Sum& {
      return sums[is_backward(name.type) * workers + worker(name.stage, static_cast<int>(lane % dp_size))];
    };
    Matrix even = work_.work_s;
    for (OpIndex op = 0; op < trace_.names.size(); ++op) {
      if (!is_compute(trace_.names[op].type)) continue;
      for (size_t lane = 0; lane < lanes(); ++lane) {
        Sum& sum = sum_of(trace_.names[op], lane);
        sum.s += even.row(op)[lane], ++sum.count;
      }
    }
    for (OpIndex op = 0; op < trace_.names.size(); ++op) {
      if (!is_compute(trace_.names[op].type)) continue;
      for (size_t lane = 0; lane < lanes(); ++lane) {
        const Sum& sum = sum_of(trace_.names[op], lane);
        even.row(op)[lane] = sum.s / static_cast<double>(sum.count);
      }
    }
    return even;
  }

  const OpTrace& trace_;
  const OpGraph& graph_;
  const Work work_;
  std::vector<double> ideal_steps_s_;
  Slowdown out_;
};

}  // namespace

Result<Slowdown> judge_slowdown(const OpTrace& trace, const std::string& where) {
  const auto has_optimizer = [](const OpName& name) { return name.type == OpType::kOptimizer; };
  if (std::ranges::none_of(trace.names, has_optimizer)) return fail(where + ": no optimizer in it, so no step ends");
  const auto graph = make_op_graph(trace, where);
  if (!graph) return std::unexpected(graph.error());
  Slowdown out = Judge(trace, *graph).judge();
  if (!(out.ideal_s > 0 && out.replayed_s > 0)) return fail(where + ": the operations take no time");
  return out;
}

}  // namespace stepscope::replay
