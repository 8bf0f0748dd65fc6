// Time between the parts of training: CHECKPOINT_STALL, VALIDATION_HEAVY, EPOCH_START_STALL, RECOMPILE_STORM, and
// BETWEEN_STEPS_HEAVY where only their sum is large. Each costs the job what its longest rank spends in it per step.
#include <algorithm>

#include "analyze/robust.h"
#include "analyze/whatif.h"
#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

constexpr double kEventMs = 5;  // a step counts as having the event from here on

struct Between {
  double cost_ms = 0, event_ms = 0;  // total; median over the steps that have it
  size_t events = 0;
  int64_t first = -1, last = -1;
  std::vector<int> ranks;            // who spends it; empty = all
};

Between measure(const Judged& j, const Rows& rows, Category c) {
  Between b;
  std::vector<double> per_rank(j.ranks, 0), sizes;
  for (size_t i = 0; i < rows.size(); ++i) {
    double worst = 0;
    for (size_t r = 0; r < rows.rows[i]->cells.size() && r < per_rank.size(); ++r) {
      const double ms = rows.rows[i]->cells[r].ms[index(c)];
      worst = std::max(worst, ms);
      per_rank[r] += ms;
    }
    b.cost_ms += worst * rows.weights[i];
    if (worst < kEventMs) continue;
    ++b.events;
    sizes.push_back(worst);
    if (b.first < 0) b.first = rows.rows[i]->step;
    b.last = rows.rows[i]->step;
  }
  b.event_ms = sizes.empty() ? 0 : median(sizes);
  const double most = per_rank.empty() ? 0 : *std::max_element(per_rank.begin(), per_rank.end());
  for (int r = 0; r < j.ranks; ++r)
    if (per_rank[r] > 0.5 * most) b.ranks.push_back(r);
  if (static_cast<int>(b.ranks.size()) == j.ranks) b.ranks.clear();
  return b;
}

struct KindOf { Category category; const char* kind; const char* words; const char* action; };
constexpr KindOf kKinds[] = {
    {Category::kCheckpoint, "CHECKPOINT_STALL", "saving checkpoints", "save less often or asynchronously (torch.distributed.checkpoint.async_save), to faster storage"},
    {Category::kValidation, "VALIDATION_HEAVY", "validation", "validate less often, on fewer batches, or share the validation set among ranks"},
    {Category::kEpochStart, "EPOCH_START_STALL", "starting epochs (new loader workers)", "keep the workers: persistent_workers=True, and open files lazily in the workers"},
    {Category::kCompile, "RECOMPILE_STORM", "recompiling", "keep shapes few: pad to buckets, mark dimensions dynamic, see TORCH_LOGS=recompiles"},
};

Finding finding_of(const Judged& j, const KindOf& k, const Between& b, double share) {
  Finding f;
  f.kind = k.kind;
  f.section = "step_time";
  f.severity = j.severity(share);
  f.phase = std::string(name(k.category));
  f.ranks = b.ranks;
  f.job_scope = b.ranks.empty();
  if (!f.job_scope)
    for (int r = 0; r < j.ranks; ++r)
      if (std::find(f.ranks.begin(), f.ranks.end(), r) == f.ranks.end()) f.victims.push_back(r);
  f.cost_share = share;
  f.cost_seconds = j.seconds(share);
  f.saves_share = saved_share(j.rows, [&](size_t i, int r) {
    LedgerMs cut{};
    cut[index(k.category)] = j.rows.rows[i]->cells[r].ms[index(k.category)];
    return cut;
  });
  f.coverage = j.coverage;
  f.confidence = 0.95;
  f.first_step = b.first;
  f.last_step = b.last;
  f.title = formatted("{} of the time goes into {}: {} in {} steps{}", text_share(share), k.words, text_ms(b.event_ms), b.events,
                      f.job_scope || j.ranks < 2 ? "" : ", on " + text_ranks(b.ranks) + " while the others wait");
  f.action = k.action;
  f.evidence.push_back({f.phase + "_ms", {}, b.event_ms, {}, ""});
  f.evidence.push_back({"affected_steps", {}, static_cast<double>(b.events), {}, ""});
  if (b.events > 1)
    f.evidence.push_back({"steps_between", {}, static_cast<double>(b.last - b.first) / static_cast<double>(b.events - 1), {}, ""});
  return f;
}

}  // namespace

void judge_between(const Judged& j, std::vector<Finding>& out) {
  if (j.rows.size() < static_cast<size_t>(j.limits->min_steps)) return;
  const double wall = j.rows.wall_ms();
  if (wall <= 0) return;
  double sum = 0;
  bool said = false;
  Between together;
  for (const KindOf& k : kKinds) {
    Between b = measure(j, j.rows, k.category);
    const double share = b.cost_ms / wall;
    if (k.category != Category::kCompile) {
      sum += share;
      if (b.first >= 0 && (together.first < 0 || b.first < together.first)) together.first = b.first;
      together.last = std::max(together.last, b.last);
    }
    // One compile, one first epoch or one checkpoint is the price of a run; it is a stall when it comes again.
    const size_t repeats = k.category == Category::kCompile ? 3 : 2;
    if (b.events < repeats || j.severity(share) == Severity::kInfo) continue;
    out.push_back(finding_of(j, k, b, share));
    said |= k.category != Category::kCompile;
  }
  if (said || sum < j.limits->share_kind_warn) return;
  Finding f;
  f.kind = "BETWEEN_STEPS_HEAVY";
  f.section = "step_time";
  f.severity = j.severity(sum);
  f.job_scope = true;
  f.cost_share = sum;
  f.cost_seconds = j.seconds(sum);
  f.coverage = j.coverage;
  f.confidence = 0.9;
  f.first_step = together.first;
  f.last_step = together.last;
  f.title = formatted("{} of the time lies between the steps: checkpoints, validation and epoch starts together", text_share(sum));
  f.action = "see the ledger for the parts; do each less often or off the training thread";
  out.push_back(std::move(f));
}

}  // namespace stepscope
