#include "analyze/set_rows.h"

#include <algorithm>

#include "analyze/robust.h"

namespace stepscope {
namespace {

using Members = std::vector<const Cell*>;

float own_ms(const Members& members, size_t category, RankSets::OwnTime own_time) {
  std::vector<double> ms;
  for (const Cell* cell : members) ms.push_back(cell->ms[category]);
  if (own_time == RankSets::OwnTime::kMedian) return static_cast<float>(median(std::move(ms)));
  return static_cast<float>(*std::min_element(ms.begin(), ms.end()));
}

Cell cell_of(size_t set, const Members& members, RankSets::OwnTime own_time) {
  Cell out;
  out.rank = static_cast<int32_t>(set);
  out.gpu = std::all_of(members.begin(), members.end(), [](const Cell* cell) { return cell->gpu; });
  for (const Cell* cell : members) {
    out.end_ns = std::max(out.end_ns, cell->end_ns);
    out.wall_ms = std::max(out.wall_ms, cell->wall_ms);
  }
  for (size_t c = 0; c < kCategoryCount; ++c) out.ms[c] = own_ms(members, c, own_time);
  return out;
}

StepRow of_sets(const StepRow& row, const RankSets& sets) {
  StepRow out;
  out.step = row.step, out.tags = row.tags, out.detailed = false, out.wall_ms = row.wall_ms;
  std::vector<Members> members(sets.own_time.size());
  for (const Cell& cell : row.cells)
    if (const auto set = sets.set_of.find(cell.rank); set != sets.set_of.end()) members[set->second].push_back(&cell);
  std::vector<float> caused_ms(members.size());
  for (const Blame& blame : row.caused) {
    const auto causer = sets.set_of.find(blame.causer), waiter = sets.set_of.find(blame.waiter);
    if (causer == sets.set_of.end() || waiter == sets.set_of.end() || causer->second == waiter->second) continue;
    const auto waiting = static_cast<float>(std::max<size_t>(1, members[waiter->second].size()));
    const float ms = blame.ms / waiting;
    out.caused.push_back({static_cast<int32_t>(causer->second), static_cast<int32_t>(waiter->second), ms});
    caused_ms[causer->second] += ms;
  }
  settle(out.caused);
  for (size_t s = 0; s < members.size(); ++s) {
    if (members[s].empty()) continue;
    out.cells.push_back(cell_of(s, members[s], sets.own_time[s]));
    out.cells.back().caused_ms = caused_ms[s];
  }
  return out;
}

}  // namespace

SetRows::SetRows(const Rows& rows, const RankSets& sets) : of_ranks_(rows) {
  made_.reserve(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) rows_.add(made_.emplace_back(of_sets(*rows.rows[i], sets)), rows.weights[i]);
}

Rows SetRows::behind(const Rows& selection) const {
  Rows out;
  for (size_t i = 0; i < selection.size(); ++i)
    out.add(*of_ranks_.rows[static_cast<size_t>(selection.rows[i] - made_.data())], selection.weights[i]);
  return out;
}

}  // namespace stepscope
