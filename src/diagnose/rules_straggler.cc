// Ranks that others wait for because their own work takes longer: INPUT_STRAGGLER, H2D_STRAGGLER, COMPUTE_STRAGGLER
// (with its phase), STRAGGLER (mixed or unknown). The run is judged block by block (analyze/late_blocks.h), so that a
// fault that began late or ended early is weighed by what it cost, not averaged away. Ranks that are late together take
// turns at being the last, so that none of them causes most of the waiting: they are judged and named as one
// (analyze/set_rows.h), be they all ranks of a host or any that stand apart (analyze/late_sets.h).
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "analyze/changes.h"
#include "analyze/late_blocks.h"
#include "analyze/late_sets.h"
#include "analyze/others.h"
#include "analyze/robust.h"
#include "analyze/set_rows.h"
#include "base/text_format.h"
#include "diagnose/late_rank.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

using Blocks = std::vector<LateBlock>;

BlockLimits limits_of(const Thresholds& t) {
  BlockLimits l;
  l.rows = static_cast<size_t>(t.straggler_block_steps);
  l.least_share = t.straggler_blocks_share;
  l.straggler.min_rows = static_cast<size_t>(t.min_steps);
  l.straggler.min_z = t.straggler_min_z;
  l.straggler.min_positive = t.straggler_min_positive;
  l.straggler.min_blame = t.straggler_min_blame;
  l.straggler.min_excess_share = t.straggler_min_excess;
  l.straggler.min_spreads = t.straggler_min_spreads;
  return l;
}

// The phase that explains the lateness; nullopt where neither one phase nor all compute together does.
std::optional<Category> phase_of(const RankExcess& e, const Thresholds& t) {
  double positive = 0, compute = 0;
  size_t top = index(Category::kUnattributed);
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (e.category_ms[c] <= 0) continue;
    positive += e.category_ms[c];
    if (is_compute(static_cast<Category>(c))) compute += e.category_ms[c];
    if (e.category_ms[c] > e.category_ms[top]) top = c;
  }
  const bool one_phase = e.category_ms[top] >= t.phase_share * positive;
  const bool all_compute = compute >= t.straggler_compute_share * positive;
  if (!one_phase && !all_compute) return std::nullopt;
  return static_cast<Category>(top);
}

// All compute is slower by a common factor.
bool same_work_slower(const RankExcess& e, const Thresholds& t) {
  double low = 1e9, high = 0;
  for (Category c : {Category::kForward, Category::kBackward}) {
    if (e.others_ms[index(c)] <= 0) continue;
    const double factor = e.own_ms[index(c)] / e.others_ms[index(c)];
    low = std::min(low, factor);
    high = std::max(high, factor);
  }
  return low > t.same_work_min_factor && high < t.same_work_spread_factor * low;
}

// `work`: how many times the others' work it gets, NaN = not known. It explains the lateness where it is as much more
// as the rank's compute takes longer, or near it.
bool more_work(const RankExcess& e, double work, const Thresholds& t) {
  const double others = compute_ms(e.others_ms), longer = others > 0 ? compute_ms(e.own_ms) / others - 1 : 0;
  return longer > 0 && work - 1 >= t.work_explains_share * longer;
}

Cause cause_of(const RankExcess& e, const Blocks& blocks, std::optional<Category> phase, double work,
               const Thresholds& t) {
  if (!phase || !is_compute(*phase)) return Cause::kNone;
  if (more_work(e, work, t)) return Cause::kMoreWork;
  if (launching_share(blocks, e.rank, *phase) >= t.launch_bound_share) return Cause::kLaunchBound;
  const bool same_work = std::isnan(work) || work < t.same_work_min_factor;
  return same_work && same_work_slower(e, t) ? Cause::kSameWorkSlower : Cause::kNone;
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

// What the others wait for the rank in all late blocks, at most a little more than what it is late by.
double cost_ms_of(const Blocks& blocks, const Thresholds& t) {
  double cost_ms = 0;
  for (const LateBlock& b : blocks) {
    const double per_step = std::min(b.excess.victim_wait_ms, t.straggler_cost_factor * b.excess.excess_ms);
    for (float w : b.rows.weights) cost_ms += per_step * w;
  }
  return cost_ms;
}

// The machine's own unevenness: the same work was a little slower for some seconds in the middle of a run. A neighbour
// on the core does that; a fault of the rank stays, or weighs more.
bool passing(const RuleInput& in, const Blocks& blocks, const Finding& f) {
  if (!in.over || f.cause != Cause::kSameWorkSlower || f.severity != Severity::kWarn || in.on_device()) return false;
  return rows_of(blocks).wall_ms() < 1e3 * in.limits->straggler_passing_s &&
         blocks.front().rows.rows.front() != in.baseline.rows.front();
}

// The rank takes longer for the same work by no more than what other programs on its host may cost a rank, and nothing
// tells that it does more work: they are not excluded. A cost that is critical is said as such all the same.
bool may_be_a_neighbour(const RuleInput& in, const RankExcess& e, std::optional<Category> phase, const Finding& f) {
  if (f.severity != Severity::kWarn || !phase || !is_compute(*phase) || f.cause == Cause::kMoreWork) return false;
  const double others = e.others_ms[index(*phase)];
  return others > 0 && e.own_ms[index(*phase)] / others - 1 <= in.slowdown_by_others(f.ranks);
}

void tell_neighbour(const RuleInput& in, FindingBuilder& f) {
  const std::vector<int> ranks = f->ranks;
  f.graded(Severity::kInfo)
      .title_goes_on(
          formatted("; other programs on {} may cost as much", ranks.size() == 1 ? "its host" : "their hosts"))
      .evidence("slowdown_by_others_at_most", in.slowdown_by_others(ranks),
                ranks.size() == 1 ? std::optional(ranks.front()) : std::nullopt)
      .action(
          "See whether the same ranks are late when nothing else runs on the host, or when ranks are bound to cores of "
          "their own");
}

constexpr const char* kSharedOut = "the low end shares the work out evenly, the high end leaves it out";

// What mending the rank may bring. Work is there to be done: where the rank has more of it, by its batches or by what
// it exchanges with the others, the others get their part.
Change change_of(const RuleInput& in, const CauseWord& cause, const Blocks& blocks, int rank) {
  Change change{.usual = down_to_the_others(in.rows, blocks, rank), .most = as_the_others(in.rows, blocks, rank)};
  const bool exchanges_more = factor_of(blocks, rank, &Cell::bytes) >= in.limits->same_work_min_factor;
  if (cause == Cause::kMoreWork || (cause == Cause::kNone && exchanges_more)) {
    change.usual = shared_out(in.rows, std::move(change.usual));
    change.why_wide = kSharedOut;
  }
  return change;
}

int64_t first_step_of(const RuleInput& in, const RankExcess& e, std::optional<Category> phase, double cost_share) {
  const auto figure = [&](const Cell& cell) { return phase ? cell.ms[index(*phase)] : cell.own_ms(); };
  const double threshold = in.limits->onset_share * (phase ? e.category_ms[index(*phase)] : e.excess_ms);
  Others others;
  const auto excess = [&](const StepRow& row) -> double {
    const Cell* cell = row.find(e.rank);
    if (!cell) return std::nan("");
    const double own = figure(*cell);
    others.look(row, figure);
    return own - others.median_without(own);  // alone: NaN, no excess
  };
  return in.onset(threshold, excess, phase == Category::kInputWait ? in.hidden_by_queue(cost_share) : 0);
}

Finding finding_of(const RuleInput& in, int rank, const Blocks& blocks) {
  const Thresholds& t = *in.limits;
  const RankExcess e = overall(blocks);
  const std::optional<Category> phase = phase_of(e, t);
  const double cost_ms = cost_ms_of(blocks, t), wall_ms = in.rows.wall_ms(), work = work_factor(blocks, rank);

  FindingBuilder f = late_rank(in, Lateness::kChronic, rank, phase, cause_of(e, blocks, phase, work, t));
  f.on_steps_clock().costs(wall_ms > 0 ? cost_ms / wall_ms : 0).saves(change_of(in, f->cause, blocks, rank));
  const bool hides = RuleInput::may_hide_later_ranks(rows_of(blocks), rank, cost_ms);
  const bool neighbour = may_be_a_neighbour(in, e, phase, f);
  if (hides || passing(in, blocks, f)) f.graded(Severity::kInfo);
  const double agree = std::min(1.0, std::min(e.blame, e.positive));
  f.confidence(std::clamp(agree * (1 - 1 / std::max(e.z, 1.5)), 0.0, 0.99));
  f.from(first_step_of(in, e, phase, f->cost_share)).until(blocks.back().rows.rows.back()->step);

  const bool one = f->victims.size() == 1;
  f.title(formatted("Rank {} is late {}; {} {} {} per step", rank, phase ? phase_words(*phase) : "in several phases",
                    one ? format_ranks(f->victims) : formatted("{} ranks", f->victims.size()), one ? "waits" : "wait",
                    format_ms(e.victim_wait_ms)));
  if (hides) f.title_goes_on(", all of them longer for ranks that were not seen or for the link");
  if (neighbour) tell_neighbour(in, f);
  if (phase)
    f.evidence(std::string(name(*phase)) + "_own_ms", e.own_ms[index(*phase)], rank, e.others_ms[index(*phase)]);
  f.evidence("own_excess_ms", e.excess_ms, rank)
      .evidence("waiting_caused_share", e.blame, rank)
      .evidence("slower_in_share_of_steps", e.positive, rank)
      .evidence("others_wait_ms", e.victim_wait_ms);
  if (!std::isnan(work)) f.evidence("work_factor", work, rank);
  if (phase == Category::kBackward) {
    const double late_ms = t.late_bucket_share * e.category_ms[index(*phase)];
    if (const int bucket = first_late_bucket(blocks.front(), rank, late_ms); bucket >= 0)
      f.evidence("first_late_bucket", bucket, rank);
  }
  return f;
}

// Late ranks that are told of together: how they are called, what they have in common, where to look.
struct LateSet {
  std::vector<int> ranks;
  std::string who;   // "All 4 ranks on node1 are late"
  std::string host;  // "" = they have no host in common
  std::string action;
};

// Its steps: each rank's, and the set's in the place of its ranks.
struct SetBlocks {
  Blocks of_set, of_ranks;
};

// How many times the others' work a rank of the set usually gets; NaN = not known.
double work_of_set(const std::vector<int>& ranks, const Blocks& blocks) {
  std::vector<double> work;
  for (const int rank : ranks) work.push_back(work_factor(blocks, rank));
  return std::ranges::any_of(work, [](double w) { return std::isnan(w); }) ? std::nan("") : median(std::move(work));
}

Cause cause_of_set(const RankExcess& e, std::optional<Category> phase, double work, const Thresholds& t) {
  if (!phase || !is_compute(*phase)) return Cause::kNone;
  if (more_work(e, work, t)) return Cause::kMoreWork;
  const bool same_work = std::isnan(work) || work < t.same_work_min_factor;
  return same_work && same_work_slower(e, t) ? Cause::kSameWorkSlower : Cause::kNone;
}

// Of a set, by what all of its ranks are later than the others usually are.
int64_t first_step_of(const RuleInput& in, const std::vector<int>& ranks, const RankExcess& e,
                      std::optional<Category> phase) {
  const auto figure = [&](const Cell& cell) { return phase ? cell.ms[index(*phase)] : comparable_ms(cell); };
  const double threshold = in.limits->onset_share * (phase ? e.category_ms[index(*phase)] : e.excess_ms);
  return in.onset(threshold, [&](const StepRow& row) -> double {
    double least = std::numeric_limits<double>::infinity();
    std::vector<double> others;
    for (const Cell& cell : row.cells)
      if (std::ranges::binary_search(ranks, cell.rank))
        least = std::min<double>(least, figure(cell));
      else
        others.push_back(figure(cell));
    return std::isinf(least) ? std::nan("") : least - median(std::move(others));
  });
}

// The ranks of a set are late by as much each: what the others wait for, and what it would save, is theirs together.
Finding finding_of(const RuleInput& in, const LateSet& set, const SetBlocks& blocks) {
  const Thresholds& t = *in.limits;
  const RankExcess e = overall(blocks.of_set);
  const std::optional<Category> phase = phase_of(e, t);
  const double cost_ms = cost_ms_of(blocks.of_set, t), wall_ms = in.rows.wall_ms();
  const double work = work_of_set(set.ranks, blocks.of_ranks);

  FindingBuilder f = late_rank(in, Lateness::kChronic, set.ranks.front(), phase, cause_of_set(e, phase, work, t));
  f.about(set.ranks).holding_up(in.others_than(set.ranks));
  std::vector<Reduction> each;
  for (const int rank : set.ranks) each.push_back(down_to_the_others(in.rows, blocks.of_ranks, rank));
  Change change{.usual = [&each](size_t i, const Cell& cell) {
    LedgerMs cut{};
    for (const Reduction& reduce : each)
      for (size_t c = 0; const float ms : reduce(i, cell)) cut[c++] += ms;
    return cut;
  }};
  if (f->cause == Cause::kMoreWork)
    change = {.usual = shared_out(in.rows, change.usual), .most = change.usual, .why_wide = kSharedOut};
  f.on_steps_clock().costs(wall_ms > 0 ? cost_ms / wall_ms : 0).saves(change);
  const double agree = std::min(1.0, std::min(e.blame, e.positive));
  f.confidence(std::clamp(agree * (1 - 1 / std::max(e.z, 1.5)), 0.0, 0.99));
  f.from(first_step_of(in, set.ranks, e, phase)).until(blocks.of_set.back().rows.rows.back()->step);
  f.title(formatted("{} {}; the other {} wait {} per step", set.who, phase ? phase_words(*phase) : "in several phases",
                    f->victims.size(), format_ms(e.victim_wait_ms)));
  if (!set.action.empty() && f->cause != Cause::kMoreWork) f.action(set.action);
  if (!set.host.empty()) f.evidence("host", set.host);
  if (set.host.empty() && passing(in, blocks.of_ranks, f)) f.graded(Severity::kInfo);
  if (set.host.empty() && may_be_a_neighbour(in, e, phase, f)) tell_neighbour(in, f);
  f.evidence("own_excess_ms", e.excess_ms);
  if (phase) f.evidence(std::string(name(*phase)) + "_own_ms", e.own_ms[index(*phase)], {}, e.others_ms[index(*phase)]);
  f.evidence("waiting_caused_share", e.blame)
      .evidence("slower_in_share_of_steps", e.positive)
      .evidence("others_wait_ms", e.victim_wait_ms);
  if (!std::isnan(work)) f.evidence("work_factor", work);
  return f;
}

// `rows` outlive them.
SetBlocks with_ranks(const SetRows& rows, const Blocks& of_set) {
  SetBlocks blocks{.of_set = of_set, .of_ranks = of_set};
  for (LateBlock& block : blocks.of_ranks) block.rows = rows.behind(block.rows);
  return blocks;
}

bool worth_a_word(const RuleInput& in, const Finding& f) {
  return f.severity != Severity::kInfo || f.cost_share >= in.limits->straggler_told_factor * in.limits->warn_share;
}

// The ranks of a host.
void judge_hosts(const RuleInput& in, std::vector<Finding>& said, std::set<int>& told) {
  const CoreSharing sharing = in.core_sharing();
  if (sharing.hosts.size() < 2 || sharing.hosts.size() == in.seen.size()) return;
  RankSets sets{.set_of = sharing.host_of, .own_time = {}};
  sets.own_time.assign(sharing.hosts.size(), RankSets::OwnTime::kLeast);
  const SetRows rows(in.baseline, sets);
  for (const auto& [host, late] : late_blocks(rows.rows(), limits_of(*in.limits))) {
    LateSet set{.ranks = sharing.hosts[static_cast<size_t>(host)].ranks, .who = "", .host = "", .action = ""};
    std::erase_if(set.ranks, [&](int rank) { return !std::ranges::binary_search(in.seen, rank); });
    if (set.ranks.size() < 2) continue;
    set.host = in.lives->at(set.ranks.front()).hostname;
    set.who = formatted("All {} ranks on {} are late", set.ranks.size(), set.host);
    set.action =
        "Look at this host, not at one rank: what else runs on it, its clocks and temperatures, its share of the data, "
        "its storage and network; leave it out to see whether the job becomes faster";
    said.push_back(finding_of(in, set, with_ranks(rows, late)));
    told.insert(set.ranks.begin(), set.ranks.end());
  }
}

// Groups of a part of the job's ranks: what ranks of different roles take for their work is not compared.
bool has_roles(const RuleInput& in) {
  return std::any_of(in.groups->begin(), in.groups->end(), [&](const auto& group) {
    return group.second.members() > 1 && group.second.members() < static_cast<size_t>(in.world);
  });
}

// Any ranks that stand apart from the others and are late together.
// `alone`: what is to be said of ranks by themselves. A set in which one rank costs as much alone is that rank's.
void judge_sets(const RuleInput& in, const std::map<int, Finding>& alone, std::vector<Finding>& said,
                std::set<int>& told) {
  if (in.half_seen() || has_roles(in)) return;
  for (const std::vector<int>& ranks : late_sets(in.baseline, static_cast<size_t>(in.limits->straggler_block_steps))) {
    if (std::ranges::any_of(ranks, [&](int rank) { return told.contains(rank); })) continue;
    RankSets sets{.set_of = {}, .own_time = {RankSets::OwnTime::kLeast, RankSets::OwnTime::kMedian}};
    for (const int rank : in.seen) sets.add(rank, std::ranges::binary_search(ranks, rank) ? 0 : 1);
    const SetRows rows(in.baseline, sets);
    const auto late = late_blocks(rows.rows(), limits_of(*in.limits));
    if (!late.contains(0)) continue;
    const LateSet set{.ranks = ranks,
                      .who = capitalized(format_ranks(ranks)) + " are late together",
                      .host = "",
                      .action =
                          "See what these ranks have in common and the others have not: their share of the data, "
                          "their devices, cores or links, code that only they run"};
    Finding f = finding_of(in, set, with_ranks(rows, late.at(0)));
    const bool of_one = std::ranges::any_of(ranks, [&](int rank) {
      const auto found = alone.find(rank);
      return found != alone.end() && found->second.cost_share >= f.cost_share;
    });
    if (of_one || !worth_a_word(in, f)) continue;
    said.push_back(std::move(f));
    told.insert(ranks.begin(), ranks.end());
  }
}

}  // namespace

void judge_stragglers(const RuleInput& in, std::vector<Finding>& out) {
  if (in.seen.size() < 2) return;
  std::vector<Finding> said;
  std::set<int> told;  // with others
  judge_hosts(in, said, told);
  std::map<int, Finding> alone;
  for (const auto& [rank, blocks] : late_blocks(in.baseline, limits_of(*in.limits))) {
    if (told.contains(rank)) continue;
    if (Finding f = finding_of(in, rank, blocks); worth_a_word(in, f)) alone.emplace(rank, std::move(f));
  }
  judge_sets(in, alone, said, told);
  for (auto& [rank, f] : alone)
    if (!told.contains(rank)) said.push_back(std::move(f));
  const double turns = in.limits->straggler_turns_factor;
  // Ranks that take turns at being late are no stragglers: none costs clearly more than the others.
  for (Finding& f : said) {
    const bool shared = std::any_of(said.begin(), said.end(), [&](const Finding& o) {
      return o.ranks != f.ranks && f.cost_share < turns * o.cost_share && o.cost_share < turns * f.cost_share;
    });
    if (shared && in.seen.size() == 2) continue;
    out.push_back(std::move(f));
  }
}

}  // namespace stepscope
