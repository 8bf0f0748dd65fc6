#include "diagnose/finding_book.h"

#include <algorithm>

namespace stepscope {

std::string FindingBook::key(const Finding& f) {
  std::string k = f.kind + "|" + f.phase;
  for (int r : f.ranks) k += "," + std::to_string(r);
  return k;
}

void FindingBook::note(const std::vector<Finding>& findings, int64_t step) {
  for (const Finding& f : findings)
    if (f.severity != Severity::kInfo) opened_.try_emplace(key(f), step);
}

void FindingBook::date(std::vector<Finding>& findings, int64_t step) const {
  for (Finding& f : findings) {
    const auto found = opened_.find(key(f));
    if (f.detected_step < 0) f.detected_step = found == opened_.end() ? step : found->second;
  }
}

namespace {

int urgency(const Finding& f) {
  if (f.kind == "ADVICE") return 4;  // a hint never stands before a verdict, BALANCED included
  if (f.kind == "COMPUTE_BOUND" || f.kind == "BALANCED") return 2;  // healthy: the verdict where nothing is wrong
  if (f.severity == Severity::kInfo) return 3;
  return f.kind == "HANG" || f.kind == "RANK_LOST" ? 0 : 1;
}

}  // namespace

void order_findings(std::vector<Finding>& findings) {
  std::stable_sort(findings.begin(), findings.end(), [](const Finding& a, const Finding& b) {
    if (urgency(a) != urgency(b)) return urgency(a) < urgency(b);
    if (a.severity != b.severity) return a.severity > b.severity;
    return a.cost_share > b.cost_share;
  });
  for (size_t i = 0; i < findings.size(); ++i) findings[i].id = "f" + std::to_string(i + 1);
}

int primary_of(const std::vector<Finding>& findings) { return findings.empty() ? -1 : 0; }

}  // namespace stepscope
