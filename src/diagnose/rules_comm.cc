// COMM_BOUND: communication that nothing hides takes much of the step, and it is the data that take it.
//
// A device's transfers last as long as the link needs. On the host's clock they are carried by threads that want a
// core: there the same collectives take several times longer in one step than in the next, although nobody is late.
// What half of the like steps (as many collectives, bytes within a factor of two) do not exceed is the transfer; what a
// step takes beyond it is a wait for the host, said as info (contention): docs/decisions/0006.
#include <cmath>
#include <map>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rules_advice.h"

namespace stepscope {

namespace {

double transfer_ms(const Cell& cell) { return cell.ms[index(Category::kCommTransfer)]; }

// What the transfer of steps like a given one usually takes.
class Usual {
 public:
  explicit Usual(const RuleInput& in) {
    std::map<Key, std::vector<double>> alike;
    for (const StepRow* row : in.rows.rows)
      for (const Cell& cell : row->cells)
        if (!cell.gpu) alike[key(cell)].push_back(transfer_ms(cell));
    for (auto& [key, values] : alike)
      if (static_cast<double>(values.size()) >= in.limits->comm_alike_steps)
        median_ms_[key] = median(std::move(values));
  }
  double link_ms(const Cell& cell) const {
    const auto at = cell.gpu ? median_ms_.end() : median_ms_.find(key(cell));
    return at == median_ms_.end() ? transfer_ms(cell) : std::min(transfer_ms(cell), at->second);
  }

 private:
  using Key = std::pair<uint32_t, int>;  // collectives, power of two of the bytes
  static Key key(const Cell& cell) { return {cell.collectives, cell.bytes > 0 ? std::ilogb(cell.bytes) : 0}; }
  std::map<Key, double> median_ms_;
};

}  // namespace

void judge_comm(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2 || in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  const double exposed = in.share_of_job(Category::kCommTransfer);
  if (exposed < in.limits->comm_bound_warn) return;
  const Usual usual(in);
  const auto link_ms = [&](const Cell& cell) { return usual.link_ms(cell); };
  const double link = in.share_of_job(link_ms);
  if (link >= in.limits->comm_bound_warn) {
    const Severity severity = link >= in.limits->comm_bound_crit ? Severity::kCrit : Severity::kWarn;
    FindingBuilder f = in.of_job(FindingKind::kCommBound, Category::kCommTransfer, exposed, severity);
    f.title(formatted("Communication that nothing hides takes {} of the time, {} per step", format_percent(exposed),
                      format_ms(in.per_step_ms(Category::kCommTransfer))))
        .action(
            "Send less or hide more: larger batches or accumulation with no_sync, gradient compression, larger "
            "buckets, a "
            "faster link");
    if (const double times = unneeded_syncs(in); times >= 2)
      f.caused_by(Cause::kNoSync)
          .evidence("backwards_per_step", times)
          .action(
              formatted("model.no_sync() around all but the last of the {:.0f} backwards of a step: the bytes fall to "
                        "1/{:.0f}",
                        times, times));
    out.push_back(f);
    return;
  }
  FindingBuilder f = in.of_job(FindingKind::kCommBound, Category::kCommTransfer, exposed, Severity::kInfo);
  f.caused_by(Cause::kContention)
      .evidence("comm_usual_share", link)
      .title(formatted("Communication takes {} of the time; with no step slower than usual it would take {}",
                       format_percent(exposed), format_percent(link)))
      .action(
          "The same data go faster in quiet steps: leave cores to the threads that carry them, fewer ranks or threads "
          "per "
          "host");
  out.push_back(f);
}

}  // namespace stepscope
