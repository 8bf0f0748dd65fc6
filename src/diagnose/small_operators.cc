#include "diagnose/small_operators.h"

#include <algorithm>
#include <vector>

#include "analyze/robust.h"
#include "diagnose/code_lines.h"
#include "diagnose/rules_advice.h"

namespace stepscope {
namespace {

bool burdened(const Configuration& rank) {
  const ConfigFact* switches = rank.find("switches");
  return switches && (number(*switches, "anomaly", 0) != 0 || number(*switches, "profiler", 0) != 0);
}

double ms_in(const Cell& cell, Category category) { return cell.ms[index(category)]; }

// Medians over the steps of one rank; nothing where they do not tell.
std::optional<SmallOperators> of_rank(const RuleInput& in, int rank, const ConfigFact& graph) {
  const Thresholds& t = *in.limits;
  const double nodes = number(graph, "nodes", 0);
  SmallOperators found;
  found.least_forward_us = number(graph, "forward_us", 0);
  found.least_backward_us = number(graph, "backward_us", 0);
  if (nodes <= 0 || found.least_forward_us <= 0 || found.least_backward_us <= 0) return std::nullopt;
  std::vector<double> operators, forward_us, backward_us, cpu;
  for (const StepRow* row : in.baseline.rows) {
    const Cell* cell = row->find(rank);
    if (!cell || cell->backwards == 0 || cell->cpu_ms < 0) continue;
    const double count = nodes * cell->backwards;
    const double own_ms = cell->wall_ms - cell->stall_ms;
    operators.push_back(count);
    forward_us.push_back(1e3 * ms_in(*cell, Category::kForward) / count);
    backward_us.push_back(1e3 * ms_in(*cell, Category::kBackward) / count);
    cpu.push_back(own_ms > 0 ? cell->cpu_ms / own_ms : 0);
  }
  if (static_cast<double>(operators.size()) < t.min_steps) return std::nullopt;
  found.per_step = median(std::move(operators));
  found.cpu_share = std::min(1.0, median(std::move(cpu)));
  found.forward_us = found.cpu_share * median(std::move(forward_us));
  found.backward_us = found.cpu_share * median(std::move(backward_us));
  const bool small = found.forward_us <= t.small_operators_factor * found.least_forward_us &&
                     found.backward_us <= t.small_operators_factor * found.least_backward_us;
  if (found.per_step < t.small_operators_least || !small || found.cpu_share < t.small_operators_cpu_share)
    return std::nullopt;
  return found;
}

bool has_recurrent_modules(const RuleInput& in) {
  return std::any_of(in.lives->begin(), in.lives->end(), [](const auto& entry) {
    const ConfigFact* graph = Configuration(entry.second).find("graph");
    return graph && number(*graph, "recurrent", 0) > 0;
  });
}

// What it hands out in backward is taken to be as its forward.
void look_who_hands_out(const RuleInput& in, SmallOperators& found) {
  if (!has_recurrent_modules(in)) return;
  double answers = 0, inside = 0;
  for (const auto& [rank, list] : *in.code) {
    const Tally met = tally(list, scope_of(Category::kForward), [](const CodeSample& s) { return s.in_recurrent; });
    answers += met.in_scope, inside += met.hits;
  }
  found.who_known = answers >= kFewest;
  if (found.who_known) found.in_recurrent = inside > 0 ? share_interval(inside, answers).high : 0;
}

}  // namespace

double handing_out_ms(const Cell& cell, const SmallOperators& found) {
  const auto part = [](double least_us, double us) { return us > 0 ? std::min(1.0, least_us / us) : 0; };
  const double all_ms = part(found.least_forward_us, found.forward_us) * ms_in(cell, Category::kForward) +
                        part(found.least_backward_us, found.backward_us) * ms_in(cell, Category::kBackward);
  return (1 - found.in_recurrent) * all_ms;
}

std::optional<SmallOperators> small_operators(const RuleInput& in) {
  if (in.on_device() || in.half_seen() || !in.lives || !in.code) return std::nullopt;
  std::vector<SmallOperators> all;
  for (const int rank : in.seen) {
    const auto life = in.lives->find(rank);
    if (life == in.lives->end()) return std::nullopt;
    const Configuration configuration(life->second);
    const ConfigFact* graph = configuration.find("graph");
    if (!graph || burdened(configuration)) return std::nullopt;
    const auto found = of_rank(in, rank, *graph);
    if (!found) return std::nullopt;
    all.push_back(*found);
  }
  if (all.empty()) return std::nullopt;
  const auto middle = all.begin() + static_cast<long>((all.size() - 1) / 2);
  std::nth_element(all.begin(), middle, all.end(), [](const SmallOperators& a, const SmallOperators& b) {
    return a.forward_us + a.backward_us < b.forward_us + b.backward_us;
  });
  SmallOperators found = *middle;
  look_who_hands_out(in, found);
  if (found.in_recurrent > in.limits->small_operators_recurrent_share) return std::nullopt;
  found.share = in.share_of_job([&](const Cell& cell) { return handing_out_ms(cell, found); });
  return found;
}

}  // namespace stepscope
