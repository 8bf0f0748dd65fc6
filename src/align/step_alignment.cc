#include "align/step_alignment.h"

#include <algorithm>

namespace stepscope {

void StepAlignment::note(int rank, uint64_t row, const std::vector<CollectiveIssue>& issues) {
  Spans spans;
  for (const CollectiveIssue& issue : issues) {
    if (issue.p2p || issue.group == 0) continue;
    const auto found = std::find_if(spans.begin(), spans.end(), [&](const Span& s) { return s.group == issue.group; });
    if (found == spans.end()) {
      spans.push_back({issue.group, issue.sequence, issue.sequence + 1});
    } else {
      found->first = std::min(found->first, issue.sequence);
      found->end = std::max(found->end, issue.sequence + 1);
    }
  }
  if (!spans.empty()) open_[row][rank] = std::move(spans);
}

std::vector<int> StepAlignment::beyond(const std::map<int, Spans>& ranks) const {
  std::map<uint64_t, uint64_t> end;  // by group, of who ends first
  for (const auto& [rank, spans] : ranks)
    for (const Span& span : spans) {
      const auto [known, fresh] = end.try_emplace(span.group, span.end);
      if (!fresh) known->second = std::min(known->second, span.end);
    }
  std::vector<int> out;
  for (const auto& [rank, spans] : ranks)
    if (std::any_of(spans.begin(), spans.end(), [&](const Span& s) { return s.first >= end.at(s.group); }))
      out.push_back(rank);
  return out;
}

void StepAlignment::move(int rank, uint64_t row) {
  for (auto at = open_.end(); at != open_.begin();) {
    --at;
    if (at->first < row) break;
    if (auto node = at->second.extract(rank)) open_[at->first + 1].insert(std::move(node));
  }
}

std::vector<int> StepAlignment::settle(uint64_t row) {
  open_.erase(open_.begin(), open_.lower_bound(row));
  ++rows_;
  const auto found = open_.find(row);
  if (found == open_.end()) return {};
  if (moved_in_ >= kLeastMoves && static_cast<double>(moved_in_) > kMostShare * static_cast<double>(rows_))
    one_loop_ = false;
  if (!one_loop_ || found->second.size() < 2) return {};
  std::vector<int> out = beyond(found->second);
  for (const int rank : out) move(rank, row);
  moved_in_ += !out.empty();
  return out;
}

}  // namespace stepscope
