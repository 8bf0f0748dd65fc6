#include "report/rank_rows.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "report/figures.h"

namespace stepscope {
namespace {

bool in_bad_state(const RankStat& r) { return ended_badly(r.state.id()); }

// NaN has no place in an order.
double comparable(std::optional<double> value) { return value && std::isfinite(*value) ? *value : 0; }

}  // namespace

std::set<int> culprit_ranks(const Snapshot& s) {
  std::set<int> ranks;
  for (const Finding& f : s.findings) {
    if (!f.job_scope && f.severity != Severity::kInfo) ranks.insert(f.ranks.begin(), f.ranks.end());
  }
  return ranks;
}

std::vector<const RankStat*> ranks_to_show(const Snapshot& s, size_t limit) {
  std::vector<const RankStat*> shown;
  for (const RankStat& r : s.ranks) shown.push_back(&r);
  if (shown.size() > limit) {
    const std::set<int> culprits = culprit_ranks(s);
    const auto worth = [&](const RankStat* r) {
      return std::tuple(in_bad_state(*r), culprits.contains(r->rank), comparable(r->caused_wait_ms),
                        comparable(r->own_ms));
    };
    std::stable_sort(shown.begin(), shown.end(),
                     [&](const RankStat* a, const RankStat* b) { return worth(a) > worth(b); });
    shown.resize(limit);
  }
  std::stable_sort(shown.begin(), shown.end(), [](const RankStat* a, const RankStat* b) { return a->rank < b->rank; });
  return shown;
}

std::string rank_state_text(const RankStat& r) {
  std::string state = category_label(r.state.text());
  if (!in_bad_state(r) || r.last_phase.empty()) return state;
  return state + " in " + category_label(r.last_phase);
}

}  // namespace stepscope
