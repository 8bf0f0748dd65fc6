#include "analyze/saved_range.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "analyze/contention.h"
#include "analyze/shared_cores.h"

namespace stepscope {

namespace {

constexpr size_t kStretches = 8;
constexpr double kReplayError = 0.01;  // of the time, either way: what the fault itself varies by is not taken away
constexpr double kBeyondError = 2 * 1.4142135623730951;  // two standard errors, of this run and of the next
constexpr double kOftenCut = 0.1;                        // of the steps: these pieces are what is changed
constexpr double kSmallLoss = 0.01;                      // of the time: not worth a word

// Standard error of 1 - Σwith/Σwithout, leaving out one stretch of rows after the other.
double jackknife_error(const std::vector<double>& without, const std::vector<double>& with) {
  const size_t n = std::min(kStretches, with.size());
  if (n < 2) return 0;
  std::vector<double> before(n, 0), after(n, 0);
  for (size_t i = 0; i < with.size(); ++i) {
    const size_t at = i * n / with.size();
    before[at] += without[i], after[at] += with[i];
  }
  double all_before = 0, all_after = 0, mean = 0;
  for (size_t k = 0; k < n; ++k) all_before += before[k], all_after += after[k];
  std::vector<double> share;
  for (size_t k = 0; k < n; ++k) {
    if (all_before - before[k] <= 0) return 0;
    share.push_back(1 - (all_after - after[k]) / (all_before - before[k]));
    mean += share.back() / static_cast<double>(n);
  }
  double sum = 0;
  for (double s : share) sum += (s - mean) * (s - mean);
  return std::sqrt(sum * static_cast<double>(n - 1) / static_cast<double>(n));
}

bool on_device(const Rows& rows) {
  return std::any_of(rows.rows.begin(), rows.rows.end(), [](const StepRow* row) {
    return std::any_of(row->cells.begin(), row->cells.end(), [](const Cell& cell) { return cell.gpu; });
  });
}

Comparable not_changed(const Rows& rows, const Reduction& reduce) {
  std::map<std::pair<int, size_t>, size_t> cuts;
  for (size_t i = 0; i < rows.size(); ++i)
    for (const Cell& cell : rows.rows[i]->cells) {
      const LedgerMs cut = reduce(i, cell);
      for (size_t c = 0; c < kCategoryCount; ++c)
        if (cut[c] > 0) ++cuts[{cell.rank, c}];
    }
  std::set<std::pair<int, size_t>> changed;
  for (const auto& [who, count] : cuts)
    if (static_cast<double>(count) > kOftenCut * static_cast<double>(rows.size())) changed.insert(who);
  return [changed = std::move(changed)](int rank, size_t category) { return !changed.contains({rank, category}); };
}

// Of the time once the change is made: what ranks of one host lose by computing at once.
void lose_to_peers(const Rows& rows, const Reduction& reduce, const CoreSharing& sharing, size_t most_rows,
                   SavedRange& range) {
  const Comparable comparable = not_changed(rows, reduce);
  const ComparedRows compared(rows, most_rows);
  std::vector<double> per_peer;
  bool told = true;
  for (const CoreSharing::Host& host : sharing.hosts) {
    const auto k = measured_contention(compared, host, comparable);
    told = told && k;
    per_peer.push_back(k ? k->most_per_peer : host.load.most_slowdown_per_peer(static_cast<int>(host.ranks.size())));
  }
  const double factor = std::max(1.0, shared_cores_factor(rows, reduce, sharing, per_peer, most_rows));
  range.low = 1 - (1 - range.share) * factor;
  range.contention_told = told || factor - 1 < kSmallLoss;
}

void widen_by_strangers(const CoreSharing& sharing, SavedRange& range) {
  double delay = 0;
  for (const CoreSharing::Host& host : sharing.hosts)
    if (host.load.has_strangers()) delay = std::max(delay, std::min(1.0, host.load.run_delay));
  range.strangers = delay > 0;
  range.low = 1 - (1 - range.low) * (1 + delay);
  range.high = 1 - (1 - range.high) * (1 - delay);
}

}  // namespace

std::optional<SavedRange> saved_range(const Rows& rows, const Reduction& reduce, const CoreSharing& sharing,
                                      size_t most_rows) {
  if (half_seen_share(rows) > kMostHalfSeenShare) return std::nullopt;
  const std::vector<double> without = replayed_rows_ms(rows, nullptr);
  double base = 0, rest = 0;
  for (double ms : without) base += ms;
  if (base <= 0) return SavedRange{};
  const std::vector<double> with = replayed_rows_ms(rows, reduce);
  for (double ms : with) rest += ms;
  SavedRange range;
  range.share = range.low = range.high = std::max(0.0, 1 - rest / base);
  if (range.share <= 0) return range;
  if (!on_device(rows)) {
    lose_to_peers(rows, reduce, sharing, most_rows, range);
    widen_by_strangers(sharing, range);
  }
  const double error = kReplayError + kBeyondError * jackknife_error(without, with);
  range.low = std::clamp(range.low - error, 0.0, range.share);
  range.high = std::clamp(range.high + error, range.share, 1.0);
  return range;
}

}  // namespace stepscope
