#include "diagnose/judged.h"

#include <cmath>

#define FMT_HEADER_ONLY
#include <fmt/core.h>

#include "analyze/robust.h"

namespace stepscope {

std::vector<double> Judged::shares(Category category) const {
  std::vector<double> own(ranks, 0), wall(ranks, 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const StepRow& row = *rows.rows[i];
    for (size_t r = 0; r < row.cells.size() && r < own.size(); ++r) {
      if (!row.cells[r].present) continue;
      own[r] += static_cast<double>(row.cells[r].ms[index(category)]) * rows.weights[i];
      wall[r] += static_cast<double>(row.cells[r].wall_ms) * rows.weights[i];
    }
  }
  std::vector<double> out;
  for (int r = 0; r < ranks; ++r)
    if (wall[r] > 0) out.push_back(own[r] / wall[r]);
  return out;
}

double Judged::share_of_job(Category category) const {
  const std::vector<double> list = shares(category);
  return list.empty() ? 0 : lower_median(list);
}

Severity Judged::severity(double share) const {
  return share >= limits->crit_share ? Severity::kCrit : share >= limits->warn_share ? Severity::kWarn : Severity::kInfo;
}

Severity Judged::share_severity(double share) const {
  return share >= limits->share_kind_crit   ? Severity::kCrit
         : share >= limits->share_kind_warn ? Severity::kWarn
                                            : Severity::kInfo;
}

int64_t Judged::first_step() const { return with_warmup.empty() ? -1 : with_warmup.rows.front()->step; }
int64_t Judged::last_step() const { return with_warmup.empty() ? -1 : with_warmup.rows.back()->step; }

std::string text_ms(double ms) {
  if (ms >= 10'000) return fmt::format("{:.0f} s", ms / 1000);
  if (ms >= 1'000) return fmt::format("{:.1f} s", ms / 1000);
  if (ms >= 10) return fmt::format("{:.0f} ms", ms);
  return fmt::format("{:.1f} ms", ms);
}

std::string text_share(double share) { return fmt::format("{:.0f} %", share * 100); }

std::string text_ranks(const std::vector<int>& ranks) {
  if (ranks.empty()) return "no rank";
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < ranks.size() && i < kShown; ++i) out += (i ? ", " : "") + std::to_string(ranks[i]);
  if (ranks.size() > kShown) out += fmt::format(" and {} more", ranks.size() - kShown);
  return out;
}

}  // namespace stepscope
