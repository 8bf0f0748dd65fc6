#include "analyze/replicas.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stepscope {

namespace {

bool near(double a, double b, double share) { return std::abs(a - b) <= share * std::max(std::abs(a), std::abs(b)); }

}  // namespace

void Replicas::add(const StepRow& row, std::optional<double> Cell::* figure) {
  Norms norms;
  for (const Cell& cell : row.cells)
    if (const auto& value = cell.*figure; value && std::isfinite(*value) && *value > 0)
      norms.emplace_back(*value, cell.rank);
  if (norms.size() < 2) return;
  std::sort(norms.begin(), norms.end());
  if (learned_ < limits_.learned_steps) return learn(norms);
  for (Set& set : sets_) judge(set, norms, static_cast<int64_t>(row.step));
}

// Ranks stay in one class as long as they were in one and have the same norm again.
void Replicas::learn(const Norms& norms) {
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> classes;  // class so far, group of this row
  uint64_t group = 0;
  std::map<int, uint64_t> next;
  for (size_t i = 0; i < norms.size(); ++i) {
    if (i > 0 && !near(norms[i].first, norms[i - 1].first, limits_.equal_share)) ++group;
    const auto before = class_of_.find(norms[i].second);
    if (learned_ > 0 && before == class_of_.end()) continue;
    const uint64_t was = learned_ > 0 ? before->second : 0;
    next[norms[i].second] = classes.try_emplace({was, group}, classes.size()).first->second;
  }
  class_of_ = std::move(next);
  if (++learned_ < limits_.learned_steps) return;
  std::map<uint64_t, std::vector<int>> members;
  for (const auto& [rank, at] : class_of_) members[at].push_back(rank);
  for (auto& [at, ranks] : members)
    if (ranks.size() > 1) sets_.push_back({std::move(ranks), {}});
  class_of_.clear();
}

void Replicas::judge(Set& set, const Norms& norms, int64_t step) {
  Norms own;
  for (const auto& one : norms)
    if (std::binary_search(set.ranks.begin(), set.ranks.end(), one.second)) own.push_back(one);
  if (own.size() < 2) return;
  if (near(own.front().first, own.back().first, limits_.different_share)) {
    if (set.now.steps < limits_.lasting_steps) set.now = {};
    return;
  }
  Divergence& now = set.now;
  if (now.steps++ == 0) now.first_step = step;
  now.last_step = step;
  now.members = set.ranks;
  // The largest group of equal norms stands for most where it is more than half.
  size_t best = 0, best_count = 0;
  for (size_t i = 0, from = 0; i < own.size(); ++i) {
    if (i > 0 && !near(own[i].first, own[i - 1].first, limits_.different_share)) from = i;
    if (i - from + 1 > best_count) best_count = i - from + 1, best = from;
  }
  now.different.clear();
  const bool most = 2 * best_count > own.size();
  now.norm = most ? own[best].first : own.front().first;
  now.other = now.norm;
  for (const auto& [norm, rank] : own) {
    if (std::abs(norm - now.norm) > std::abs(now.other - now.norm)) now.other = norm;
    if (most && !near(norm, now.norm, limits_.different_share)) now.different.push_back(rank);
  }
  std::sort(now.different.begin(), now.different.end());
}

Replicas::Divergence Replicas::divergence() const {
  Divergence longest;
  for (const Set& set : sets_)
    if (set.now.steps >= limits_.lasting_steps && set.now.steps > longest.steps) longest = set.now;
  return longest;
}

}  // namespace stepscope
