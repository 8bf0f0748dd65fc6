#include "analyze/saved_range.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <utility>

#include "analyze/changes.h"
#include "analyze/contention.h"
#include "analyze/shared_cores.h"

namespace stepscope {

namespace {

constexpr size_t kStretches = 8;
constexpr double kReplayError = 0.01;  // of the time, either way: what the fault itself varies by is not taken away
constexpr double kBeyondError = 2 * std::numbers::sqrt2;  // two standard errors, of this run and of the next
constexpr double kOftenCut = 0.1;                         // of the steps: these pieces are what is changed
constexpr double kSmallLoss = 0.01;                       // of the time: not worth a word
// What is left takes less than in the run with the fault, by at most so much of the time that goes, and of itself:
// measured up to 0.07 and 0.25 (docs/decisions/0026-a-saving-has-two-ends.md).
constexpr double kColdShare = 0.1, kMostCold = 0.25;

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
        if (cut[c] != 0) ++cuts[{cell.rank, c}];
    }
  std::set<std::pair<int, size_t>> changed;
  for (const auto& [who, count] : cuts)
    if (static_cast<double>(count) > kOftenCut * static_cast<double>(rows.size())) changed.insert(who);
  return [changed = std::move(changed)](int rank, size_t category) { return !changed.contains({rank, category}); };
}

// How much longer work takes for each other rank of the host that computes at once, by host of `sharing`.
struct PerPeer {
  std::vector<double> most;
  bool told = true;
};

PerPeer per_peer_of(const Rows& rows, const Reduction& reduce, const CoreSharing& sharing, size_t most_rows) {
  const Comparable comparable = not_changed(rows, reduce);
  const ComparedRows compared(rows, most_rows);
  PerPeer out;
  for (const CoreSharing::Host& host : sharing.hosts) {
    const auto k = measured_contention(compared, host, comparable);
    out.told = out.told && k;
    out.most.push_back(k ? k->most_per_peer : host.load.most_slowdown_per_peer(static_cast<int>(host.ranks.size())));
  }
  return out;
}

double total(const std::vector<double>& ms) { return std::accumulate(ms.begin(), ms.end(), 0.0); }

double share_of(double rest_ms, double base_ms) { return std::max(0.0, 1 - rest_ms / base_ms); }

// What the ranks of a host have to do, and what their loaders do, takes so much of the time at least.
double least_rest(const Rows& rows, const Change& change, const CoreSharing& sharing, double base_ms) {
  std::vector<double> work_ms(sharing.hosts.size(), 0);
  for (size_t i = 0; i < rows.size(); ++i)
    for (const Cell& cell : rows.rows[i]->cells) {
      const auto host = sharing.host_of.find(cell.rank);
      if (host == sharing.host_of.end() || !(cell.cpu_ms > 0)) continue;
      double ms = cell.cpu_ms;
      if (!change.goes_on) {
        const LedgerMs cut = change.usual(i, cell);
        for (const float part : cut) ms -= part * worked_share(cell, cut);
      }
      work_ms[host->second] += std::max(0.0, ms) * rows.weights[i];
    }
  double rest = 0;
  for (size_t h = 0; h < work_ms.size(); ++h) {
    const HostLoad& load = sharing.hosts[h].load;
    if (!(load.cores > 0)) continue;
    rest = std::max(rest, (work_ms[h] / base_ms + load.worker_cores) / std::max(1.0, load.cores - load.others_cores));
  }
  return rest;
}

// `least_share`: what the least change saves where every piece of work takes what it took.
void lower_by_cores(const Rows& rows, const Change& change, double least_share, double base_ms,
                    const CoreSharing& sharing, size_t most_rows, SavedRange& range) {
  const PerPeer per_peer = per_peer_of(rows, change.usual, sharing, most_rows);
  const auto lowered = [&](const Reduction& reduce, double share) {
    const double factor = std::max(1.0, shared_cores_factor(rows, reduce, sharing, per_peer.most, most_rows));
    range.contention_told = range.contention_told && (per_peer.told || factor - 1 < kSmallLoss);
    return 1 - (1 - share) * factor;
  };
  range.low = lowered(change.usual, range.share);
  if (change.least) range.low = std::min(range.low, lowered(change.least, least_share));
  const double by_cores = 1 - least_rest(rows, change, sharing, base_ms);
  range.cores_full = range.low - by_cores > kSmallLoss;
  range.low = std::min(range.low, by_cores);
}

void raise_by_cold_starts(SavedRange& range) {
  range.high += std::min(kColdShare * range.high, kMostCold * (1 - range.high));
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

std::optional<SavedRange> saved_range(const Rows& rows, const Change& change, const CoreSharing& sharing,
                                      size_t most_rows) {
  if (half_seen_share(rows) > kMostHalfSeenShare) return std::nullopt;
  const std::vector<double> without = replayed_rows_ms(rows, nullptr);
  const double base = total(without);
  if (base <= 0) return SavedRange{};
  const std::vector<double> with = replayed_rows_ms(rows, change.usual);
  SavedRange range;
  range.share = range.low = range.high = share_of(total(with), base);
  if (range.share <= 0) return range;
  const auto own = [&](const Reduction& reduce) {
    return reduce ? share_of(replay_ms(rows, reduce), base) : range.share;
  };
  range.high = std::max(range.high, own(change.most));
  const double least = std::min(range.share, own(change.least));
  range.ends_differ = range.high - least > kSmallLoss;
  if (on_device(rows)) {
    range.low = least;
  } else {
    lower_by_cores(rows, change, least, base, sharing, most_rows, range);
    raise_by_cold_starts(range);
    widen_by_strangers(sharing, range);
  }
  const double error = kReplayError + kBeyondError * jackknife_error(without, with);
  range.low = std::clamp(range.low - error, 0.0, range.share);
  range.high = std::clamp(range.high + error, range.share, 1.0);
  return range;
}

}  // namespace stepscope
