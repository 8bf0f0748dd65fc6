#include "diagnose/finding_book.h"

#include <algorithm>
#include <numeric>

#include "diagnose/explanation.h"

namespace stepscope {

std::string FindingBook::key(const Finding& f) {
  std::string k = f.kind.str() + "|" + f.phase;
  for (int r : f.ranks) k += "," + std::to_string(r);
  return k;
}

namespace {

constexpr int64_t kClosedAfterSteps = 64;  // without a word
constexpr size_t kMaxOpenings = 32;        // further ones count for the last

}  // namespace

void FindingBook::note(const std::vector<Finding>& findings, int64_t step) {
  for (const Finding& f : findings) {
    if (f.severity == Severity::kInfo) continue;
    std::vector<Opening>& list = openings_[key(f)];
    if (list.empty() || (step > list.back().last_said + kClosedAfterSteps && list.size() < kMaxOpenings))
      list.push_back({step, step, f.first_step});
    list.back().last_said = step;
  }
}

void FindingBook::date(std::vector<Finding>& findings, int64_t step) const {
  for (Finding& f : findings) {
    if (f.detected_step >= 0) continue;
    f.detected_step = step;
    const auto found = openings_.find(key(f));
    if (found == openings_.end()) continue;
    const auto& list = found->second;
    const auto at =
        std::find_if(list.begin(), list.end(), [&](const Opening& o) { return o.last_said >= f.first_step; });
    if (at == list.end()) continue;
    f.detected_step = at->opened;
    if (f.first_step > at->opened) f.first_step = at->first_step;
  }
}

namespace {

// A healthy word is the verdict where nothing is wrong; a hint never stands before a verdict.
int precedence(const Finding& f) {
  switch (urgency_of(f.kind.id())) {
    case Urgency::kHint: return 4;
    case Urgency::kHealthy: return 2;
    case Urgency::kProgress: return f.severity == Severity::kInfo ? 3 : 0;
    case Urgency::kFault: break;
  }
  return f.severity == Severity::kInfo ? 3 : 1;
}

bool stands_before(const Finding& a, const Finding& b) {
  if (precedence(a) != precedence(b)) return precedence(a) < precedence(b);
  if (a.severity != b.severity) return a.severity > b.severity;
  return a.cost_share > b.cost_share;
}

}  // namespace

void settle_findings(std::vector<Finding>& findings) {
  for (Finding& f : findings) f.explained_by.clear();
  const std::vector<int> by = share_out(findings);
  std::vector<size_t> order(findings.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return stands_before(findings[a], findings[b]); });
  std::vector<Finding> settled;
  for (size_t root : order) {
    if (by[root] >= 0) continue;
    const auto add = [&](size_t i) {
      findings[i].id = "f" + std::to_string(settled.size() + 1);
      settled.push_back(std::move(findings[i]));
    };
    add(root);
    const std::string id = settled.back().id;
    for (size_t i : order)
      if (by[i] == static_cast<int>(root)) findings[i].explained_by = id, add(i);
  }
  findings = std::move(settled);
}

int primary_of(const std::vector<Finding>& findings) { return findings.empty() ? -1 : 0; }

}  // namespace stepscope
