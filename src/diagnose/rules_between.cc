// Time between the parts of training: CHECKPOINT_STALL, VALIDATION_HEAVY, EPOCH_START_STALL, RECOMPILE_STORM, and
// BETWEEN_STEPS_HEAVY where their sum says more than each alone. Each costs the job what its longest rank spends in it
// per step. What has no name and comes with the saves, and hardly ever without them, is a part of these: gathering the
// state, syncing the file, waiting for an asynchronous save. (What follows a validation is counted as such by the
// ledger.)
#include <algorithm>
#include <iterator>
#include <map>
#include <optional>

#include "analyze/robust.h"
#include "analyze/changes.h"
#include "base/text_format.h"
#include "diagnose/rules_advice.h"
#include "diagnose/unnamed_work.h"

namespace stepscope {

namespace {

struct Between {
  double cost_ms = 0, event_ms = 0;  // total; median over the steps that have it
  double unnamed_ms = 0;             // of the total
  size_t events = 0;
  int64_t first = -1, last = -1;
  std::vector<int> ranks;  // who spends it; empty = all
};

// `figure(cell)`: ms of a rank in a step.
template <class Figure>
Between measure(const RuleInput& in, const Rows& rows, Figure figure) {
  Between b;
  std::map<int, double> per_rank;
  std::vector<double> sizes;
  for (size_t i = 0; i < rows.size(); ++i) {
    double worst = 0;
    for (const Cell& cell : rows.rows[i]->cells) {
      const double ms = figure(cell);
      worst = std::max(worst, ms);
      per_rank[cell.rank] += ms;
    }
    b.cost_ms += worst * rows.weights[i];
    if (worst < in.limits->between_event_ms) continue;
    ++b.events;
    sizes.push_back(worst);
    if (b.first < 0) b.first = rows.rows[i]->step;
    b.last = rows.rows[i]->step;
  }
  b.event_ms = sizes.empty() ? 0 : median(sizes);
  double most = 0;
  for (const auto& [rank, ms] : per_rank) most = std::max(most, ms);
  for (const auto& [rank, ms] : per_rank)
    if (ms > in.limits->between_rank_share * most) b.ranks.push_back(rank);
  if (in.others_than(b.ranks).empty()) b.ranks.clear();
  return b;
}

// What a run begins with: an event of the same kind at its first step, or before it.
enum class Opening { kNone, kFirstStep, kBefore };

struct KindOf {
  Category category;
  Opening opening;
  FindingKind kind;
  const char* words;
  const char* action;
  Cause cause = Cause::kNone;
};
constexpr KindOf kKinds[] = {
    {Category::kCheckpoint, Opening::kNone, FindingKind::kCheckpointStall, "saving checkpoints",
     "Save less often or asynchronously (torch.distributed.checkpoint.async_save), to faster storage"},
    {Category::kValidation, Opening::kNone, FindingKind::kValidationHeavy, "validation or other inference",
     "Do it less often, on fewer batches, or share it among the ranks"},
    {Category::kEpochStart, Opening::kBefore, FindingKind::kEpochStartStall, "starting epochs",
     "See what the loader, its sampler and its dataset do when an iterator is made"},
    {Category::kCompile, Opening::kFirstStep, FindingKind::kRecompileStorm, "recompiling",
     "Keep shapes few: pad to buckets, mark dimensions dynamic, see TORCH_LOGS=recompiles"},
};

constexpr KindOf kNewWorkers = {Category::kEpochStart,
                                Opening::kBefore,
                                FindingKind::kEpochStartStall,
                                "starting epochs (new loader workers)",
                                "Keep the workers: persistent_workers=True, and open files lazily in the workers",
                                Cause::kPersistentWorkers};
constexpr KindOf kDrawsOrder = {
    Category::kEpochStart,
    Opening::kBefore,
    FindingKind::kEpochStartStall,
    "starting epochs (the sampler orders all samples)",
    "Use a sampler that draws as it goes, or longer epochs: RandomSampler makes a list of all "
    "indices each time",
    Cause::kSampler};

// What is done at the start of an epoch, where the set-up of a loader says so: workers that start anew, or else, of
// loaders without workers to start, a sampler that makes a list of very many indices.
const KindOf& kind_of_starts(const RuleInput& in, const KindOf& otherwise) {
  bool draws = false;
  for (const auto& [rank, life] : *in.lives)
    for (const ConfigFact* loader : Configuration(life).training_loaders()) {
      if (number(*loader, "workers", 0) > 0 && number(*loader, "persistent", 1) == 0) return kNewWorkers;
      const std::string sampler = text(*loader, "sampler");
      draws |= (sampler == "RandomSampler" || sampler == "DistributedSampler") &&
               number(*loader, "samples", 0) >= in.limits->epoch_start_samples;
    }
  return draws ? kDrawsOrder : otherwise;
}

// Events that come as regularly as from the first one on began with the run: the first workers were started before the
// first step, the first compile was in it, and both are left out of the baseline.
int64_t onset_of(const RuleInput& in, const KindOf& k, const Between& b) {
  if (k.opening == Opening::kNone || b.events < 2 || in.first_step() != 0) return b.first;
  if (k.opening == Opening::kFirstStep) {
    const std::vector<Cell>& cells = in.with_warmup.rows.front()->cells;
    if (std::none_of(cells.begin(), cells.end(),
                     [&](const Cell& cell) { return cell.ms[index(k.category)] >= in.limits->between_event_ms; }))
      return b.first;
  }
  const double between = static_cast<double>(b.last - b.first) / static_cast<double>(b.events - 1);
  return static_cast<double>(b.first) <= in.limits->between_first_factor * between ? 0 : b.first;
}

// What is done on purpose can be done more rarely; other costs have a cause that can go. `around`: what has no name
// goes with it.
Change change_of(const KindOf& k, const UnnamedWork* around) {
  Reduction all = removal_of(k.category);
  if (around)
    all = [named = std::move(all), around = *around](size_t i, const Cell& cell) {
      LedgerMs cut = named(i, cell);
      around.cut(cell, cut);
      return cut;
    };
  const bool on_purpose = k.category == Category::kCheckpoint || k.category == Category::kValidation;
  return on_purpose ? half_as_often(all) : Change{.usual = all};
}

Finding finding_of(const RuleInput& in, const KindOf& k, const Between& b, double share, const UnnamedWork* around) {
  FindingBuilder f = in.finding(k.kind);
  f.in(around && 2 * b.unnamed_ms > b.cost_ms ? Category::kUnattributed : k.category).about(b.ranks).caused_by(k.cause);
  if (b.ranks.empty())
    f.about_job();
  else
    f.holding_up(in.others_than(b.ranks));
  f.costs(share).saves(change_of(k, around)).confidence(0.95).from(onset_of(in, k, b)).until(b.last);
  f.title(formatted("{} of the time goes into {}{}: {} in {}{}", format_percent(share), k.words,
                    around ? " and what comes with it" : "", format_ms(b.event_ms), format_steps(b.events),
                    f->job_scope || in.seen.size() < 2
                        ? ""
                        : ", on " + format_ranks(b.ranks) +
                              (in.half_seen() ? " while the others seen wait" : " while the others wait")))
      .action(k.action)
      .evidence(std::string(name(k.category)) + "_ms", b.event_ms)
      .evidence("affected_steps", static_cast<double>(b.events));
  if (b.events > 1)
    f.evidence("steps_between", static_cast<double>(b.last - b.first) / static_cast<double>(b.events - 1));
  return f;
}

Between measure(const RuleInput& in, const UnnamedWork& unnamed) {
  return measure(in, in.rows, [&](const Cell& cell) { return unnamed.beyond_ms(cell); });
}

// Where it is in every other step it is a part of them.
bool is_rare(const RuleInput& in, const Between& b) {
  return b.events <= in.rows.size() / static_cast<size_t>(in.limits->between_rare_steps);
}

bool any_saves(const RuleInput& in) {
  const auto saves = [](const Cell& cell) { return cell.ms[index(Category::kCheckpoint)] > 0; };
  return std::any_of(in.rows.rows.begin(), in.rows.rows.end(),
                     [&](const StepRow* row) { return std::any_of(row->cells.begin(), row->cells.end(), saves); });
}

// Whether it is a part of the saves: not where it comes with the validations just as well, nor where a rank's pauses
// were said to be its saves.
bool belongs_to_saves(const RuleInput& in, const UnnamedWork& unnamed, const std::vector<Finding>& said) {
  const auto is_save = [](const Finding& f) { return f.kind == FindingKind::kCheckpointStall; };
  return std::none_of(said.begin(), said.end(), is_save) && unnamed.comes_with(in, Category::kCheckpoint) &&
         !unnamed.comes_with(in, Category::kValidation);
}

struct Sum {
  double share = 0, named = 0, largest = 0;
  int64_t first = -1, last = -1;
  std::string parts;
  double told_share = 0;  // parts below are not listed

  void add(const Between& b, double of_wall, const std::string& words, bool is_named) {
    if (of_wall <= 0) return;
    share += of_wall;
    if (is_named) named += of_wall;
    largest = std::max(largest, of_wall);
    if (b.first >= 0 && (first < 0 || b.first < first)) first = b.first;
    last = std::max(last, b.last);
    if (of_wall >= told_share) parts += (parts.empty() ? "" : ", ") + words + " " + format_percent(of_wall);
  }
};

Finding finding_of(const RuleInput& in, const Sum& sum) {
  FindingBuilder f = in.finding(FindingKind::kBetweenStepsHeavy);
  f.about_job()
      .costs(sum.share)
      .confidence(0.9)
      .from(sum.first)
      .until(sum.last)
      .title(formatted("{} of the time lies between the steps: {}", format_percent(sum.share),
                       sum.parts.empty() ? "many small parts" : sum.parts))
      .action("See the ledger for the parts; do each less often or off the training thread");
  return f;
}

}  // namespace

void judge_between(const RuleInput& in, std::vector<Finding>& out) {
  if (in.rows.size() < static_cast<size_t>(in.limits->min_steps)) return;
  const double wall = in.rows.wall_ms();
  if (wall <= 0) return;
  bool said = false;
  Sum sum{.told_share = in.limits->between_told_share};
  std::optional<UnnamedWork> unnamed;  // a median per rank: where it is asked for
  if (any_saves(in)) unnamed.emplace(in);
  const bool with_saves = unnamed && belongs_to_saves(in, *unnamed, out);
  for (const KindOf& kind : kKinds) {
    const KindOf& k = kind.category == Category::kEpochStart ? kind_of_starts(in, kind) : kind;
    const UnnamedWork* around = with_saves && k.category == Category::kCheckpoint ? &*unnamed : nullptr;
    Between b = measure(in, in.rows, [&](const Cell& cell) {
      return static_cast<double>(cell.ms[index(k.category)]) + (around ? around->beyond_ms(cell) : 0);
    });
    if (around) b.unnamed_ms = measure(in, *around).cost_ms;
    const double share = b.cost_ms / wall;
    if (k.category != Category::kCompile) sum.add(b, share, k.words, true);
    // One compile, one first epoch or one checkpoint is the price of a run; it is a stall when it comes again.
    const double repeats =
        k.category == Category::kCompile ? in.limits->recompile_min_repeats : in.limits->between_min_repeats;
    if (static_cast<double>(b.events) < repeats || in.severity(share) == Severity::kInfo) continue;
    out.push_back(finding_of(in, k, b, share, around));
    said |= k.category != Category::kCompile;
  }
  if (sum.named >= sum.told_share && !with_saves) {
    if (!unnamed) unnamed.emplace(in);
    if (const Between b = measure(in, *unnamed); is_rare(in, b))
      sum.add(b, b.cost_ms / wall, "work without a name" + (b.ranks.empty() ? "" : " on " + format_ranks(b.ranks)),
              false);
  }
  // A part that has a finding of its own, and is nearly all of it, has said it.
  const bool more =
      sum.largest <= in.limits->between_part_share * sum.share && sum.share - sum.largest >= in.limits->warn_share;
  if ((!said || more) && sum.share >= in.limits->share_kind_warn) out.push_back(finding_of(in, sum));
}

}  // namespace stepscope
