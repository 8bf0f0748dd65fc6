// ALLOCATOR_THRASH: allocations fail at first, torch gives its cache back to the device and tries again (retries): each
// time a synchronisation and a set of new allocations. CACHE_FLUSH: cached memory goes back without such need in most
// steps: the program empties the cache. Cost: what these steps last beyond those without.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

struct Events {
  std::vector<size_t> rows;  // indices into RuleInput::rows in which it happened
  std::set<int> ranks;
  double count = 0;
  size_t readings = 0;  // rows that could have shown it

  void add(size_t row, int rank, double n) {
    if (rows.empty() || rows.back() != row) rows.push_back(row);
    ranks.insert(rank);
    count += n;
  }
};

// Counters run on: what is new in a row is their difference to the rank's reading before.
void collect(const RuleInput& in, Events& retries, Events& flushes) {
  std::map<int, const Cell*> before;
  for (size_t i = 0; i < in.rows.size(); ++i) {
    const StepRow& row = *in.rows.rows[i];
    bool read = false;
    for (const Cell& cell : row.cells) {
      if (cell.allocated_bytes < 0) continue;
      const Cell* last = std::exchange(before[cell.rank], &cell);
      if (!last || cell.retries < last->retries || cell.device_frees < last->device_frees) continue;  // a new process
      read = true;
      const auto again = static_cast<double>(cell.retries - last->retries);
      const auto freed = static_cast<double>(cell.device_frees - last->device_frees);
      if (again > 0)
        retries.add(i, cell.rank, again);
      else if (freed > 0)
        flushes.add(i, cell.rank, freed);
    }
    if (!read) continue;
    ++retries.readings;
    ++flushes.readings;
  }
}

struct Cost {
  double share = 0, median_ms = 0;
  bool known = false;
};

Cost cost_of(const RuleInput& in, const Events& events) {
  const std::set<size_t> hit(events.rows.begin(), events.rows.end());
  std::vector<double> usual, extra;
  for (size_t i = 0; i < in.rows.size(); ++i)
    if (!hit.contains(i)) usual.push_back(in.rows.rows[i]->wall_ms);
  Cost cost;
  constexpr size_t kFew = 3;  // with fewer steps to compare with the cost is not known
  if (usual.size() < kFew) return cost;
  const double base = median(usual), wall = in.rows.wall_ms();
  double sum = 0;
  for (size_t i : events.rows) {
    extra.push_back(std::max(0.0, in.rows.rows[i]->wall_ms - base));
    sum += extra.back() * in.rows.weights[i];
  }
  cost = {wall > 0 ? sum / wall : 0, median(extra), true};
  return cost;
}

FindingBuilder report(const RuleInput& in, FindingKind kind, const Events& events, const Cost& cost) {
  FindingBuilder f = in.finding(kind);
  f.in(Category::kHostPause)
      .caused_by(Cause::kAllocator)
      .about(std::vector(events.ranks.begin(), events.ranks.end()))
      .costs(cost.share)
      .confidence(cost.known ? 0.9 : 0.7)
      .from(in.rows.rows[events.rows.front()]->step)
      .until(in.rows.rows[events.rows.back()]->step)
      .evidence("steps", static_cast<double>(events.rows.size()))
      .evidence("steps_share", static_cast<double>(events.rows.size()) / static_cast<double>(events.readings));
  if (cost.known) f.evidence("extra_ms_per_step", cost.median_ms);
  return f;
}

}  // namespace

void judge_allocator(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  Events retries, flushes;
  collect(in, retries, flushes);
  if (static_cast<double>(retries.rows.size()) >= in.limits->thrash_min_steps) {
    const Cost cost = cost_of(in, retries);
    FindingBuilder f = report(in, FindingKind::kAllocatorThrash, retries, cost);
    // Without a step to compare with nobody knows the price, but there is one in every step.
    if (!cost.known) f.graded(Severity::kWarn);
    f.evidence("allocation_retries", retries.count);
    const std::string price = cost.known ? formatted(", +{} each", format_ms(cost.median_ms)) : "";
    f.title(formatted("Memory is full: {} of {} steps had to flush torch's cache and try again ({:.0f} retries{})",
                      retries.rows.size(), retries.readings, retries.count, price))
        .action(
            "Cut the micro-batch a little, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; equal sizes from step "
            "to "
            "step need no retries");
    out.push_back(f);
  }
  if (flushes.readings > 0 &&
      static_cast<double>(flushes.rows.size()) >=
          in.limits->flush_steps_share * static_cast<double>(flushes.readings) &&
      static_cast<double>(flushes.rows.size()) >= in.limits->thrash_min_steps) {
    const Cost cost = cost_of(in, flushes);
    FindingBuilder f = report(in, FindingKind::kCacheFlush, flushes, cost);
    f.evidence("blocks_given_back", flushes.count)
        .title(formatted("Cached memory goes back to the device in {} of {} steps and is allocated anew",
                         flushes.rows.size(), flushes.readings))
        .action(
            "Remove torch.cuda.empty_cache() from the loop; it synchronises, and the memory is needed again in the "
            "next "
            "step");
    out.push_back(f);
  }
}

}  // namespace stepscope
