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
#include "diagnose/judged.h"

namespace stepscope {

namespace {

double transfer_ms(const Cell& cell) { return cell.ms[index(Category::kCommTransfer)]; }

// What the transfer of steps like a given one usually takes.
class Usual {
 public:
  explicit Usual(const Judged& j) {
    std::map<Key, std::vector<double>> alike;
    for (const StepRow* row : j.rows.rows)
      for (const Cell& cell : row->cells)
        if (!cell.gpu) alike[key(cell)].push_back(transfer_ms(cell));
    for (auto& [key, values] : alike)
      if (static_cast<double>(values.size()) >= j.limits->comm_alike_steps) median_ms_[key] = median(std::move(values));
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

void judge_comm(const Judged& j, std::vector<Finding>& out) {
  if (j.seen.size() < 2 || j.rows.size() < static_cast<size_t>(j.limits->min_steps)) return;
  const double exposed = j.share_of_job(Category::kCommTransfer);
  if (exposed < j.limits->comm_bound_warn) return;
  const Usual usual(j);
  const auto link_ms = [&](const Cell& cell) { return usual.link_ms(cell); };
  const double link = j.share_of_job(link_ms);
  if (link >= j.limits->comm_bound_warn) {
    const Severity severity = link >= j.limits->comm_bound_crit ? Severity::kCrit : Severity::kWarn;
    Finding f = j.of_job(FindingKind::kCommBound, Category::kCommTransfer, exposed, severity);
    f.title = formatted("Communication that nothing hides takes {} of the time, {} per step", format_percent(exposed),
                        format_ms(j.per_step_ms(Category::kCommTransfer)));
    f.action =
        "Send less or hide more: larger batches or accumulation with no_sync, gradient compression, larger buckets, a "
        "faster link";
    out.push_back(std::move(f));
    return;
  }
  Finding f = j.of_job(FindingKind::kCommBound, Category::kCommTransfer, exposed, Severity::kInfo);
  f.cause = Cause::kContention;
  f.evidence.push_back({"comm_usual_share", {}, link, {}, ""});
  f.title = formatted("Communication takes {} of the time; with no step slower than usual it would take {}",
                      format_percent(exposed), format_percent(link));
  f.action =
      "The same data go faster in quiet steps: leave cores to the threads that carry them, fewer ranks or threads per "
      "host";
  out.push_back(std::move(f));
}

}  // namespace stepscope
