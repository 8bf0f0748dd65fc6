// Ranks that others wait for because their own work takes longer: INPUT_STRAGGLER, H2D_STRAGGLER, COMPUTE_STRAGGLER
// (with its phase), STRAGGLER (mixed or unknown). The run is judged block by block (analyze/straggler.h), so that a
// fault that began late or ended early is weighed by what it cost, not averaged away.
#include <algorithm>
#include <cmath>
#include <map>

#include "analyze/others.h"
#include "analyze/robust.h"
#include "analyze/straggler.h"
#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

struct LateBlock {
  Rows rows;
  RankExcess excess;
};

StragglerLimits limits_of(const Thresholds& t) {
  StragglerLimits l;
  l.min_rows = static_cast<size_t>(t.min_steps);
  l.min_z = t.straggler_min_z;
  l.min_positive = t.straggler_min_positive;
  l.min_blame = t.straggler_min_blame;
  l.min_excess_share = t.straggler_min_excess;
  l.min_spreads = t.straggler_min_spreads;
  return l;
}

// Late blocks per rank. A rank that is late in one block only was disturbed by chance (another process on its core);
// two in a row, or half of all blocks, are a fault.
std::map<int, std::vector<LateBlock>> late_blocks(const Judged& j) {
  std::map<int, std::vector<std::pair<size_t, LateBlock>>> late;
  const auto size = static_cast<size_t>(j.limits->straggler_block_steps);
  const size_t n = j.baseline.size();
  size_t blocks = 0;
  for (size_t from = 0; from < n; ++blocks) {
    // The last block takes the remainder, so that no block is too short to judge.
    const size_t to = n - from < 2 * size ? n : from + size;
    Rows block = j.baseline.slice(from, to);
    for (RankExcess& e : rank_excess(block, limits_of(*j.limits)))
      if (e.late) late[e.rank].push_back({blocks, {block, e}});
    from = to;
  }
  std::map<int, std::vector<LateBlock>> out;
  for (auto& [rank, list] : late)
    for (size_t i = 0; i < list.size(); ++i) {
      const bool neighbour = (i > 0 && list[i - 1].first + 1 == list[i].first) ||
                             (i + 1 < list.size() && list[i].first + 1 == list[i + 1].first);
      if (neighbour ||
          static_cast<double>(list.size()) >= j.limits->straggler_blocks_share * static_cast<double>(blocks))
        out[rank].push_back(std::move(list[i].second));
    }
  return out;
}

// Step-weighted mean of the blocks' medians.
RankExcess overall(const std::vector<LateBlock>& blocks) {
  RankExcess all = blocks.front().excess;
  double rows = 0;
  all.excess_ms = all.sigma_ms = all.z = all.positive = all.blame = all.victim_wait_ms = 0;
  all.category_ms = all.own_ms = all.others_ms = {};
  for (const LateBlock& b : blocks) {
    const auto n = static_cast<double>(b.rows.size());
    rows += n;
    all.excess_ms += n * b.excess.excess_ms;
    all.sigma_ms += n * b.excess.sigma_ms;
    all.z = std::max(all.z, b.excess.z);
    all.positive += n * b.excess.positive;
    all.blame += n * b.excess.blame;
    all.victim_wait_ms += n * b.excess.victim_wait_ms;
    for (size_t c = 0; c < kCategoryCount; ++c) {
      all.category_ms[c] += static_cast<float>(n * b.excess.category_ms[c]);
      all.own_ms[c] += static_cast<float>(n * b.excess.own_ms[c]);
      all.others_ms[c] += static_cast<float>(n * b.excess.others_ms[c]);
    }
  }
  for (double* x : {&all.excess_ms, &all.sigma_ms, &all.positive, &all.blame, &all.victim_wait_ms}) *x /= rows;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    all.category_ms[c] /= static_cast<float>(rows);
    all.own_ms[c] /= static_cast<float>(rows);
    all.others_ms[c] /= static_cast<float>(rows);
  }
  return all;
}

struct Naming {
  FindingKind kind = FindingKind::kStraggler;
  Cause cause = Cause::kNone;
  Category phase = Category::kUnattributed;
  bool named = false;
};

// Which phase explains the lateness, and whether all compute is slower by a common factor (same work, slower).
Naming name_of(const RankExcess& e, const Thresholds& t) {
  double positive = 0, compute = 0;
  size_t top = index(Category::kUnattributed);
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (e.category_ms[c] <= 0) continue;
    positive += e.category_ms[c];
    if (is_compute(static_cast<Category>(c))) compute += e.category_ms[c];
    if (e.category_ms[c] > e.category_ms[top]) top = c;
  }
  Naming n;
  n.phase = static_cast<Category>(top);
  const bool one_phase = e.category_ms[top] >= t.phase_share * positive;
  const bool all_compute = compute >= t.straggler_compute_share * positive;
  n.named = one_phase || all_compute;
  if (!n.named) {
    n.kind = FindingKind::kStraggler;
    return n;
  }
  if (is_compute(n.phase)) {
    n.kind = FindingKind::kComputeStraggler;
    double low = 1e9, high = 0;
    for (Category c : {Category::kForward, Category::kBackward}) {
      if (e.others_ms[index(c)] <= 0) continue;
      const double factor = e.own_ms[index(c)] / e.others_ms[index(c)];
      low = std::min(low, factor);
      high = std::max(high, factor);
    }
    if (low > t.same_work_min_factor && high < t.same_work_spread_factor * low) n.cause = Cause::kSameWorkSlower;
  } else if (n.phase == Category::kInputWait) {
    n.kind = FindingKind::kInputStraggler;
  } else if (n.phase == Category::kH2d) {
    n.kind = FindingKind::kH2dStraggler;
  } else if (n.phase == Category::kHostPause) {
    n.kind = FindingKind::kPauseStraggler;
  } else {
    n.kind = FindingKind::kStraggler;
  }
  return n;
}

// What the phase takes longer on this rank's device is time in which its host still launches it: the host is late, the
// device is not slow. A device that is slow, or gets more work, has its launches behind it.
bool launch_bound(const std::vector<LateBlock>& blocks, int rank, Category phase, double share) {
  double longer_ms = 0, launching_ms = 0;
  const size_t c = index(phase);
  for (const LateBlock& b : blocks)
    for (const StepRow* row : b.rows.rows) {
      const Cell* found = row->find(rank);
      if (!found || !found->gpu) continue;
      const Cell& own = *found;
      std::vector<double> ms, launching;
      for (const Cell& other : row->cells)
        if (&other != &own && other.gpu) ms.push_back(other.ms[c]), launching.push_back(other.launching_ms[c]);
      if (ms.empty()) continue;
      longer_ms += own.ms[c] - median(ms);
      launching_ms += own.launching_ms[c] - median(launching);
    }
  return longer_ms > 0 && launching_ms >= share * longer_ms;
}

std::string phase_words(Category phase) {
  switch (phase) {
    case Category::kInputWait: return "waiting for its input";
    case Category::kH2d: return "in copies to the device";
    case Category::kForward: return "in forward";
    case Category::kBackward: return "in backward";
    case Category::kOptimizer: return "in the optimizer";
    case Category::kHostPause: return "in pauses";
    case Category::kUserCode: return "in user code";
    case Category::kUnattributed: return "outside of the known phases";
    default: return "in " + std::string(name(phase));
  }
}

std::string action_of(const Naming& n) {
  if (n.kind == FindingKind::kInputStraggler)
    return "look at this rank's loader: its storage, its share of the data, its worker count and CPU binding";
  if (n.kind == FindingKind::kH2dStraggler) return "check this rank's pinned memory and PCIe link";
  if (n.kind == FindingKind::kPauseStraggler)
    return "find what pauses this rank: garbage collection, logging, a blocking call";
  if (n.cause == Cause::kLaunchBound)
    return "this rank's GPU waits for its host: look at its CPU (other processes, NUMA, Python work, many small "
           "kernels)";
  if (n.cause == Cause::kSameWorkSlower)
    return "same work, slower in every phase: check what else runs on this rank's cores, its clocks and its node";
  switch (n.phase) {
    case Category::kForward: return "compare this rank's batch shapes and forward code with the others'";
    case Category::kBackward:
      return "compare this rank's backward: custom autograd functions, hooks, shapes; the first late bucket names the "
             "layers";
    case Category::kOptimizer:
      return "look for work on this rank only around optimizer.step (hooks, clipping, logging)";
    default: return "look at what this rank does that the others do not";
  }
}

// Takes the rank down to the median of the others: the median excess of each phase that is beyond noise, and what
// stands out above it in single steps. What the other ranks' steps vary by is left in, so that noise is not "saved".
Reduction reduction_of(const Rows& rows, const std::vector<LateBlock>& blocks, int rank) {
  std::map<const StepRow*, const RankExcess*> at;
  for (const LateBlock& b : blocks)
    for (const StepRow* row : b.rows.rows) at[row] = &b.excess;
  return [&rows, at = std::move(at), rank](size_t i, const Cell& cell) {
    LedgerMs cut{};
    if (cell.rank != rank) return cut;
    const auto found = at.find(rows.rows[i]);
    if (found == at.end()) return cut;
    const RankExcess& e = *found->second;
    for (size_t c = 0; c < kCategoryCount; ++c)
      if (e.category_ms[c] > 0.05f * static_cast<float>(e.excess_ms)) cut[c] = e.category_ms[c];
    return cut;
  };
}

// The machine's own unevenness: the same work was a little slower for some seconds in the middle of a run. A neighbour
// on the core does that; a fault of the rank stays, or weighs more.
bool passing(const Judged& j, const std::vector<LateBlock>& blocks, const Finding& f) {
  if (!j.over || f.cause != Cause::kSameWorkSlower || f.severity != Severity::kWarn || j.on_device()) return false;
  double late_ms = 0;
  for (const LateBlock& b : blocks) late_ms += b.rows.wall_ms();
  return late_ms < 1e3 * j.limits->straggler_passing_s && blocks.front().rows.rows.front() != j.baseline.rows.front();
}

int first_late_bucket(const LateBlock& block, int rank, double least_ms) {
  std::vector<double> lead;
  for (size_t k = 0; k < 64; ++k) {
    std::vector<double> d;
    for (const StepRow* row : block.rows.rows) {
      const Cell* found = row->find(rank);
      if (!found || found->bucket_ms.size() <= k) continue;
      const Cell& own = *found;
      std::vector<double> others;  // a rank may have issued fewer buckets
      for (const Cell& other : row->cells)
        if (&other != &own && other.bucket_ms.size() > k) others.push_back(other.bucket_ms[k]);
      if (!others.empty()) d.push_back(own.bucket_ms[k] - median(others));
    }
    if (d.size() < 4) break;
    lead.push_back(median(d));
  }
  for (size_t k = 0; k < lead.size(); ++k)
    if (lead[k] > least_ms) return lead.size() > 1 ? static_cast<int>(k) : -1;
  return -1;
}

Finding finding_of(const Judged& j, int rank, const std::vector<LateBlock>& blocks) {
  const Thresholds& t = *j.limits;
  const RankExcess e = overall(blocks);
  Naming n = name_of(e, t);
  if (n.named && is_compute(n.phase) && launch_bound(blocks, rank, n.phase, t.launch_bound_share))
    n.cause = Cause::kLaunchBound;
  Finding f = Finding::of(n.kind);
  f.cause = n.cause;
  f.phase = n.named ? std::string(name(n.phase)) : "";
  f.pattern = "chronic";
  f.ranks = {rank};
  if (j.on_device()) f.clock = "gpu";
  f.victims = j.others_than({rank});

  double cost_ms = 0;
  Rows late;
  for (const LateBlock& b : blocks) {
    for (size_t i = 0; i < b.rows.size(); ++i) late.add(*b.rows.rows[i], b.rows.weights[i]);
    const double per_step = std::min(b.excess.victim_wait_ms, t.straggler_cost_factor * b.excess.excess_ms);
    for (float w : b.rows.weights) cost_ms += per_step * w;
  }
  const double wall_ms = j.rows.wall_ms();
  f.cost_share = wall_ms > 0 ? cost_ms / wall_ms : 0;
  f.cost_seconds = j.seconds(f.cost_share);
  f.saves_share = saved_share(j.rows, reduction_of(j.rows, blocks, rank));
  f.severity = j.severity(f.cost_share);
  const bool hides = Judged::may_hide_later_ranks(late, rank, cost_ms);
  if (hides || passing(j, blocks, f)) f.severity = Severity::kInfo;
  f.coverage = j.coverage;
  const double agree = std::min(1.0, std::min(e.blame, e.positive));
  f.confidence = std::clamp(agree * (1 - 1 / std::max(e.z, 1.5)), 0.0, 0.99);

  const size_t top = index(n.phase);
  const auto figure = [&](const Cell& cell) { return n.named ? cell.ms[top] : cell.own_ms(); };
  const double threshold = t.onset_share * (n.named ? e.category_ms[top] : e.excess_ms);
  Others others;
  const auto excess = [&](const StepRow& row) -> double {
    const Cell* cell = row.find(rank);
    if (!cell) return std::nan("");
    const double own = figure(*cell);
    others.look(row, figure);
    return own - others.median_without(own);  // alone: NaN, no excess
  };
  f.first_step =
      j.onset(threshold, excess, n.phase == Category::kInputWait ? j.steps_hidden_by_queue(f.cost_share) : 0);
  f.last_step = blocks.back().rows.rows.back()->step;

  f.title =
      formatted("Rank {} is late {}; {} {} {} per step", rank, n.named ? phase_words(n.phase) : "in several phases",
                f.victims.size() == 1 ? format_ranks(f.victims) : formatted("{} ranks", f.victims.size()),
                f.victims.size() == 1 ? "waits" : "wait", format_ms(e.victim_wait_ms));
  if (hides) f.title += ", all of them longer for ranks that were not seen or for the link";
  f.action = action_of(n);
  if (n.named)
    f.evidence.push_back({std::string(name(n.phase)) + "_own_ms", rank, e.own_ms[top], e.others_ms[top], ""});
  f.evidence.push_back({"own_excess_ms", rank, e.excess_ms, {}, ""});
  f.evidence.push_back({"waiting_caused_share", rank, e.blame, {}, ""});
  f.evidence.push_back({"slower_in_share_of_steps", rank, e.positive, {}, ""});
  f.evidence.push_back({"others_wait_ms", {}, e.victim_wait_ms, {}, ""});
  if (n.phase == Category::kBackward) {
    const int bucket = first_late_bucket(blocks.front(), rank, t.late_bucket_share * e.category_ms[top]);
    if (bucket >= 0) f.evidence.push_back({"first_late_bucket", rank, bucket, {}, ""});
  }
  return f;
}

}  // namespace

void judge_stragglers(const Judged& j, std::vector<Finding>& out) {
  if (j.seen.size() < 2) return;
  std::vector<Finding> said;
  for (const auto& [rank, blocks] : late_blocks(j)) {
    Finding f = finding_of(j, rank, blocks);
    if (f.severity == Severity::kInfo && f.cost_share < j.limits->straggler_told_factor * j.limits->warn_share)
      continue;
    said.push_back(std::move(f));
  }
  const double turns = j.limits->straggler_turns_factor;
  // Ranks that take turns at being late are no stragglers: none costs clearly more than the others.
  for (Finding& f : said) {
    const bool shared = std::any_of(said.begin(), said.end(), [&](const Finding& o) {
      return o.ranks != f.ranks && f.cost_share < turns * o.cost_share && o.cost_share < turns * f.cost_share;
    });
    if (shared && j.seen.size() == 2) continue;
    out.push_back(std::move(f));
  }
}

}  // namespace stepscope
