// LATE_START: ranks that came to a place where all must meet before the first step long after the others: to
// init_process_group, to DistributedDataParallel's constructor, or to an operation for which the others waited (a
// barrier while one rank prepares the data).
#include <algorithm>
#include <map>
#include <tuple>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/rule.h"

namespace stepscope {

namespace {

constexpr double kFromNs = 1e-9;

struct Late {
  std::vector<int> ranks;
  double by_s = 0;  // the last of them
  std::string where, look;
};

constexpr const char* kBeforeInit =
    "Look at what this rank does before init_process_group: imports, logins, data preparation, a slow file system";
constexpr const char* kBeforeStep =
    "Look at what this rank does between init_process_group and the first step: preparing data or a cache, downloads, "
    "loading weights; do it before the launch, or share it among the ranks";

// Who came so much later than the usual (lower median) rank. `times`: seconds, by rank.
Late later_than_usual(const std::map<int, double>& times, double least_s) {
  Late late;
  if (times.size() < 2) return late;
  std::vector<double> all;
  for (const auto& [rank, time_s] : times) all.push_back(time_s);
  const double usual_s = lower_median(all);
  for (const auto& [rank, time_s] : times) {
    if (time_s - usual_s < least_s) continue;
    late.ranks.push_back(rank);
    late.by_s = std::max(late.by_s, time_s - usual_s);
  }
  return late;
}

// When ranks came to init_process_group, s.
std::map<int, double> joined_s(const RuleInput& in) {
  std::map<int, double> times;
  for (const auto& [rank, life] : *in.lives)
    if (life.init_begin_ns) times[rank] = static_cast<double>(life.init_begin_ns) * kFromNs;
  return times;
}

Late to_process_group(const RuleInput& in) {
  Late late = later_than_usual(joined_s(in), in.limits->late_start_s);
  late.where = "joined the process group";
  late.look = kBeforeInit;
  return late;
}

// A place counts where all ranks that were seen came to it.
Late to_place(const RuleInput& in, double least_s) {
  std::map<uint64_t, std::map<int, double>> places;
  for (const auto& [rank, life] : *in.lives)
    for (const StartupMeeting& m : life.startup_meetings)
      if (!m.waited) places[m.sequence][rank] = static_cast<double>(m.begin_ns) * kFromNs;
  Late latest;
  for (const auto& [place, times] : places) {
    if (times.size() != in.lives->size()) continue;
    if (Late late = later_than_usual(times, least_s); late.by_s > latest.by_s) latest = std::move(late);
  }
  latest.where = "came to DistributedDataParallel";
  latest.look = kBeforeStep;
  return latest;
}

// The members of a group that did not wait for an operation that the others waited for.
Late to_operation(const RuleInput& in, double least_s) {
  std::map<std::pair<uint64_t, uint64_t>, std::map<int, double>> waits;
  for (const auto& [rank, life] : *in.lives)
    for (const StartupMeeting& m : life.startup_meetings)
      if (m.waited) waits[{m.group, m.sequence}][rank] = static_cast<double>(m.end_ns - m.begin_ns) * kFromNs;
  Late latest;
  for (const auto& [operation, by_rank] : waits) {
    const auto group = in.groups->find(operation.first);
    std::vector<double> waited_s;
    Late late;
    for (const auto& [rank, life] : *in.lives) {
      const bool member = group == in.groups->end() || std::find(group->second.ranks.begin(), group->second.ranks.end(),
                                                                 rank) != group->second.ranks.end();
      const auto wait = by_rank.find(rank);
      if (wait != by_rank.end())
        waited_s.push_back(wait->second);
      else if (member)
        late.ranks.push_back(rank);
    }
    if (late.ranks.empty() || late.ranks.size() > waited_s.size()) continue;
    late.by_s = lower_median(waited_s);
    if (late.by_s >= least_s && late.by_s > latest.by_s) latest = std::move(late);
  }
  latest.where = "came to an operation of all ranks";
  latest.look = kBeforeStep;
  return latest;
}

// Ranks that joined later than the others, and met nobody there, are as late at the next place.
double already_late_s(const RuleInput& in, const std::vector<int>& ranks) {
  const std::map<int, double> times = joined_s(in);
  std::vector<double> all;
  for (const auto& [rank, time_s] : times) all.push_back(time_s);
  double most_s = 0;
  for (const int rank : ranks)
    if (const auto at = times.find(rank); at != times.end()) most_s = std::max(most_s, at->second - lower_median(all));
  return most_s;
}

// Of the whole run; 0 where nobody told when it began.
double run_s_of(const RuleInput& in) {
  int64_t run_begin = INT64_MAX, run_end = 0;
  for (const auto& [rank, life] : *in.lives) {
    if (life.process_start_ns) run_begin = std::min(run_begin, life.process_start_ns);
    run_end = std::max({run_end, life.last_step_ns, life.end_ns});
  }
  return run_begin == INT64_MAX ? 0 : static_cast<double>(run_end - run_begin) * kFromNs;
}

}  // namespace

void judge_late_start(const RuleInput& in, std::vector<Finding>& out) {
  const double run_s = run_s_of(in);
  const double after_init_s =
      in.over && run_s > 0 ? std::min(in.limits->late_start_s, std::max(in.limits->late_start_short_s,
                                                                        in.limits->late_start_short_share * run_s))
                           : in.limits->late_start_s;
  // Who is late at one place is so at the next, unless the first holds the others up: then it is told there.
  Late late = to_process_group(in);
  for (Late other : {to_place(in, after_init_s), to_operation(in, after_init_s)})
    if (other.by_s > in.limits->late_start_again_factor * std::max(late.by_s, already_late_s(in, other.ranks)))
      late = std::move(other);
  if (late.ranks.empty()) return;
  FindingBuilder f = in.finding(FindingKind::kLateStart);
  f.about(late.ranks).in(Category::kStartup);
  f.costs(run_s > 0 ? std::min(1.0, late.by_s / run_s) : 0, late.by_s).at_least(Severity::kWarn).confidence(0.99);
  for (const auto& [rank, life] : *in.lives)
    if (std::find(late.ranks.begin(), late.ranks.end(), rank) == late.ranks.end()) f.also_holding_up(rank);
  f.title(formatted("{} {} {:.0f} s after the others{}", capitalized(format_ranks(late.ranks)), late.where, late.by_s,
                    static_cast<int>(in.lives->size()) < in.world ? " seen" : ""))
      .action(late.look)
      .evidence("late_s", late.by_s);
  out.push_back(f);
}

}  // namespace stepscope
