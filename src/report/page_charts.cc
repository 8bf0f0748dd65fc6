#include <algorithm>
#include <cmath>

#include "base/text_format.h"
#include "report/heat_map.h"
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

StepChart step_chart(const Snapshot& s) {
  StepChart out{.first_step = s.recent.front().step, .last_step = s.recent.back().step};
  for (const StepPoint& p : s.recent) out.wall_ms.push_back(std::isfinite(p.wall_ms) && p.wall_ms >= 0 ? p.wall_ms : 0);
  out.median_ms = lower_median_of(out.wall_ms);
  return out;
}

}  // namespace

Block ledger_block(const Snapshot& s, const PageSize& size) {
  Block block{"Where the time went",
              formatted("share of the time and mean per step, over {} and {}{}", ranks_meant(s.run),
                        format_steps(s.steps), s.job_clock == "gpu" ? ", GPU clock" : ""),
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
  if (HeatMap map = heat_map(s, heat_rows(s, size.heat_rows)); !map.rows.empty())
    block.elements.emplace_back(std::move(map));
  return block;
}

}  // namespace stepscope
