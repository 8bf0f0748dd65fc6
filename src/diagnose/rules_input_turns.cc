// INPUT_STRAGGLER of ranks that take turns: now this one, now that one waits for its batch, and the others for it.
//
//   lost(k)    the largest lead of own time in step k, at most what the ranks waited in it on average (LOAD_IMBALANCE)
//   input(k)   the part of it that the leading rank's lead in input_wait reaches
//
// Said when input(k) is worth a warning, is most of what is lost, and no rank alone brings it about: that one is an
// INPUT_STRAGGLER of its own, and judged before.
#include <algorithm>
#include <map>
#include <vector>

#include "analyze/straggler.h"
#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/leads.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

float input_ms(const Cell& cell) { return cell.ms[index(Category::kInputWait)]; }

struct Turns {
  double lost_ms = 0, input_ms = 0;
  std::map<int, double> by_rank;  // of input_ms
  double most_of_one() const {
    double most = 0;
    for (const auto& [rank, ms] : by_rank) most = std::max(most, ms);
    return input_ms > 0 ? most / input_ms : 0;
  }
};

Turns turns_of(const Rows& rows, const Leads& own, const Leads& input) {
  Turns turns;
  for (size_t i = 0; i < rows.size(); ++i) {
    const double lost_ms = loss_ms(own, rows, i);
    if (lost_ms <= 0) continue;
    const size_t late = own.first_of(i);
    const double ms = rows.weights[i] * std::clamp(input.at(i, late), 0.0, lost_ms);
    turns.lost_ms += rows.weights[i] * lost_ms, turns.input_ms += ms;
    turns.by_rank[rows.rows[i]->cells[late].rank] += ms;
  }
  return turns;
}

}  // namespace

void judge_input_turns(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2 || in.half_seen() || in.rows.size() < 2 * static_cast<size_t>(in.limits->min_steps)) return;
  if (std::any_of(out.begin(), out.end(), [](const Finding& f) { return f.kind == FindingKind::kInputStraggler; }))
    return;
  const double wall_ms = in.rows.wall_ms();
  if (wall_ms <= 0 || in.severity(most_lost_ms(in.rows) / wall_ms) == Severity::kInfo) return;
  const Leads own(in.rows, comparable_ms), input(in.rows, input_ms);
  const Turns turns = turns_of(in.rows, own, input);
  const double share = turns.input_ms / wall_ms, of_lost = turns.input_ms / std::max(turns.lost_ms, 1e-9);
  if (in.severity(share) == Severity::kInfo || of_lost < in.limits->turns_input_share) return;
  if (turns.most_of_one() > in.limits->turns_most_of_one) return;

  std::vector<int> ranks;
  for (const auto& [rank, ms] : turns.by_rank)
    if (ms >= in.limits->turns_least_of_one * turns.input_ms) ranks.push_back(rank);
  FindingBuilder f = in.finding(FindingKind::kInputStraggler);
  f.about(ranks).in(Category::kInputWait).pattern("rotating").on_steps_clock().costs(share);
  f.saves(in.rows, Change{.usual = [&](size_t i, const Cell& cell) {
            LedgerMs cut{};
            const auto at = static_cast<size_t>(&cell - in.rows.rows[i]->cells.data());
            cut[index(Category::kInputWait)] =
                static_cast<float>(std::clamp<double>(input.at(i, at), 0, input_ms(cell)));
            return cut;
          }});
  f.confidence(std::min(0.97, of_lost * in.coverage)).throughout();
  out.push_back(
      f.title(formatted("Ranks take turns at waiting for their batches, and the others wait for them: {} of the time",
                        format_percent(share)))
          .action("See what the slow batches read (shared storage, a cache that misses, a few large samples); fetch "
                  "further ahead, so that one slow batch is covered")
          .evidence("lost_ms_per_step", turns.input_ms / static_cast<double>(in.rows.size()))
          .evidence("input_share_of_lateness", of_lost)
          .evidence("most_often_last_share", turns.most_of_one()));
}

}  // namespace stepscope
