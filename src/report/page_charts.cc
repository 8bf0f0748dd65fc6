#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/text_format.h"
#include "report/page_blocks.h"
#include "report/rank_rows.h"

namespace stepscope {
namespace {

double sum_of(const LedgerNs& ledger) {
  double sum = 0;
  for (const int64_t ns : ledger) sum += static_cast<double>(std::max<int64_t>(ns, 0));
  return sum;
}

// A rank's ledger within its steps: what the bars compare.
LedgerNs within_steps(LedgerNs ledger) {
  ledger[index(Category::kStartup)] = ledger[index(Category::kTeardown)] = 0;
  return ledger;
}

RankBars rank_bars(const Snapshot& s, size_t limit) {
  RankBars out;
  const std::vector<const RankStat*> ranks = ranks_to_show(s, limit);
  if (ranks.size() < 2) return out;
  const std::set<int> culprits = culprit_ranks(s);
  double longest = 0;
  for (const RankStat* r : ranks) longest = std::max(longest, sum_of(within_steps(r->ledger)));
  if (longest <= 0) return out;
  for (const RankStat* r : ranks) {
    const LedgerNs ledger = within_steps(r->ledger);
    out.bars.push_back({.label = formatted("rank {}", r->rank),
                        .value = format_ms(r->step_ms),
                        .slices = ledger_slices(ledger),
                        .length = sum_of(ledger) / longest,
                        .culprit = culprits.contains(r->rank)});
  }
  return out;
}

// The lower one: where half of the ranks are slow, the other half is the measure.
double lower_median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

StepChart step_chart(const Snapshot& s) {
  StepChart out{.first_step = s.recent.front().step, .last_step = s.recent.back().step};
  for (const StepPoint& p : s.recent) out.wall_ms.push_back(std::isfinite(p.wall_ms) && p.wall_ms >= 0 ? p.wall_ms : 0);
  out.median_ms = lower_median_of(out.wall_ms);
  return out;
}

// Rows worth showing: all, or the slowest on average.
std::vector<size_t> heat_rows(const Snapshot& s, size_t limit) {
  size_t count = 0;
  for (const StepPoint& p : s.recent) count = std::max(count, p.rank_ms.size());
  std::vector<size_t> rows(std::min(count, s.ranks.size()));
  std::iota(rows.begin(), rows.end(), size_t{0});
  if (rows.size() <= limit) return rows;
  std::vector<double> sums(rows.size(), 0);
  for (const StepPoint& p : s.recent)
    for (size_t r = 0; r < std::min(p.rank_ms.size(), sums.size()); ++r)
      sums[r] += std::isfinite(p.rank_ms[r]) ? static_cast<double>(p.rank_ms[r]) : 0;
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) { return sums[a] > sums[b]; });
  rows.resize(limit);
  std::sort(rows.begin(), rows.end());
  return rows;
}

signed char heat_level(double ratio) {
  signed char level = 0;
  for (const double bound : kHeatBounds) level = static_cast<signed char>(level + (ratio > bound ? 1 : 0));
  return level;
}

HeatMap heat_map(const Snapshot& s, size_t limit) {
  HeatMap out;
  std::vector<double> measures;  // of each step: a rank must not become the measure because the steps vary
  for (const StepPoint& p : s.recent) {
    std::vector<double> own;
    std::copy_if(p.rank_ms.begin(), p.rank_ms.end(), std::back_inserter(own),
                 [](float ms) { return std::isfinite(ms); });
    if (!own.empty()) measures.push_back(lower_median_of(std::move(own)));
  }
  const double median = lower_median_of(std::move(measures));
  if (!(median > 0)) return out;
  for (const size_t at : heat_rows(s, limit)) {
    HeatRow row{.rank = s.ranks[at].rank, .levels = {}};
    for (const StepPoint& p : s.recent) {
      const bool seen = at < p.rank_ms.size() && std::isfinite(p.rank_ms[at]);
      row.levels.push_back(seen ? heat_level(static_cast<double>(p.rank_ms[at]) / median)
                                : static_cast<signed char>(-1));
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace

Block ledger_block(const Snapshot& s, const PageSize& size) {
  Block block{"Where the time went",
              formatted("share of the time and mean per step, over {} and {} steps{}", ranks_meant(s.run),
                        format_count(s.steps), s.job_clock == "gpu" ? ", GPU clock" : ""),
              {}};
  LedgerChart chart;
  for (const LedgerSlice& slice : ledger_slices(s.job_ledger)) {
    const double ms = s.steps > 0 ? static_cast<double>(slice.ns) / 1e6 / static_cast<double>(s.steps) : 0;
    chart.parts.push_back({slice, category_label(name(slice.category)), format_percent(slice.share), format_ms(ms)});
  }
  if (chart.parts.empty()) return block;
  block.elements.emplace_back(std::move(chart));
  if (RankBars bars = rank_bars(s, size.bars); !bars.bars.empty()) block.elements.emplace_back(std::move(bars));
  return block;
}

Block steps_block(const Snapshot& s, const PageSize& size) {
  Block block;
  if (s.recent.size() < 2) return block;
  block.title = "Steps";
  block.aside = formatted("{} to {}: wall time of the job, and below it the own time of each rank",
                          s.recent.front().step, s.recent.back().step);
  block.elements.emplace_back(step_chart(s));
  if (HeatMap map = heat_map(s, size.heat_rows); !map.rows.empty()) block.elements.emplace_back(std::move(map));
  return block;
}

}  // namespace stepscope
