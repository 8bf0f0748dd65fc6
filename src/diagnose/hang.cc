#include "diagnose/hang.h"

#include <algorithm>
#include <csignal>
#include <set>

#include "base/text_format.h"
#include "diagnose/device_stand.h"
#include "diagnose/odd_one.h"
#include "diagnose/stack_text.h"
#include "diagnose/timed_collectives.h"
#include "diagnose/wait_chain.h"

namespace stepscope {
namespace {

constexpr double kComputes = 0.5;  // of a core: the thread computes
constexpr double kLongStep = 3;    // times the patience: native code that computes is most often a long step

bool computes(const RankStanding& r) { return r.state == 'R' || r.cpu_share.value_or(0) >= kComputes; }

bool waits_for_file(const std::string& channel) {
  for (const char* word : {"pipe", "tty", "n_tty", "unix_stream", "sk_wait", "tcp_recv", "inet_", "nfs", "rpc", "fuse",
                           "io_schedule", "folio", "page", "blk", "ext4", "xfs"})
    if (channel.find(word) != std::string::npos) return true;
  return false;
}

struct Reason {
  Cause cause = Cause::kRankSilent;
  std::string words;
  bool worker = false;  // it waits for a loader worker that stands itself
};

// A loader that waits, asleep, for a worker that waits for a lock.
std::optional<Reason> stuck_worker(const RankStanding& r, const std::string& at) {
  if (r.stuck_workers.empty() || computes(r)) return std::nullopt;
  const StuckWorker& first = r.stuck_workers.front();
  const std::string more =
      r.stuck_workers.size() == 1 ? "" : formatted(" (and {} more alike)", r.stuck_workers.size() - 1);
  return Reason{
      Cause::kRankSilent,
      formatted("waits in its loader{} for worker {}{}, process {}, which waits for a lock or another thread ({})", at,
                first.worker, more, first.pid, first.wait_channel),
      true};
}

// Why a rank that does not come does not come.
Reason reason_of(const RankStanding& r) {
  const std::string place = r.stack ? place_in_program(r.stack->frames) : "";
  const std::string at = place.empty() ? "" : " at " + place;
  if (r.ended && !r.exception.empty()) return {Cause::kRankExited, "left with " + r.exception};
  if (r.ended && r.exit_signal) return {Cause::kRankExited, formatted("was killed by signal {}", r.exit_signal)};
  if (r.ended && r.exit_code > 0) return {Cause::kRankExited, formatted("ended with exit code {}", r.exit_code)};
  if (r.ended && !r.clean) return {Cause::kRankExited, "ended without a word"};
  if (r.ended) return {Cause::kUnevenSteps, "left the program in order after " + format_steps(r.steps)};
  if (!r.exception.empty()) return {Cause::kRankExited, "raised " + r.exception + " and has not ended"};
  if (r.leaving) return {Cause::kUnevenSteps, "left the loop after " + format_steps(r.steps) + " and is in teardown"};
  if (r.state == 'T' || r.state == 't')
    return {Cause::kStopped, r.state == 'T' ? "is stopped by a signal (SIGSTOP)" : "is held by a debugger"};
  if (r.state == 'D')
    return {Cause::kWaitingOnIo,
            formatted("waits for the kernel{}{}", r.wait_channel.empty() ? "" : " in " + r.wait_channel, at)};
  if (auto found = stuck_worker(r, at)) return *found;
  const bool native = r.stack && !r.stack->in_interpreter;
  if (r.stack && r.stack->holds_gil && native) {
    const std::string module = r.stack->module.empty() ? "" : ", in " + r.stack->module;
    return {Cause::kGilHeld,
            formatted("holds the GIL in native code that {}{}{}", computes(r) ? "computes" : "waits", module, at)};
  }
  if (computes(r))
    return {Cause::kRankSilent, formatted("computes{}{}", native ? " in native code" : " in Python", at)};
  if (waits_for_file(r.wait_channel))
    return {Cause::kWaitingOnIo, formatted("waits for input or output ({}){}", r.wait_channel, at)};
  const std::string how = r.wait_channel.find("nanosleep") != std::string::npos ? "sleeps"
                          : r.wait_channel.find("futex") != std::string::npos   ? "waits for a lock or another thread"
                                                                                : "waits";
  return {Cause::kRankSilent, how + at};
}

std::string action_for(Cause cause, bool worker) {
  if (worker)
    return "See where the worker stands (py-spy dump --pid PID). One that is forked while another thread holds a lock "
           "never "
           "gets it: start workers by spawn or forkserver, or keep them (persistent_workers=True)";
  switch (cause) {
    case Cause::kRankExited: return "See this rank's traceback; the others wait for it until their group's timeout";
    case Cause::kUnevenSteps:
      return "Give every rank the same number of steps (drop_last, equal shards, Join): see where the loop is left or "
             "a step skipped";
    case Cause::kMismatchedCollective:
      return "Make all ranks of the group call the same operation with the same sizes, in the same order: look for a "
             "branch on the rank";
    case Cause::kStopped: return "Let the process go on (kill -CONT), or see who stopped it: a debugger, a scheduler";
    case Cause::kWaitingOnIo: return "See what this line reads or writes, and whether the file system answers";
    case Cause::kGilHeld: return "Native code at this line keeps the GIL and does not return: a lock, a driver call";
    case Cause::kDeviceWork:
      return "Something issued to this rank's GPU before that point does not finish: a kernel that loops, a copy, an "
             "event that nobody records. See dmesg for XIDs, the kernel with cuda-gdb -p PID";
    case Cause::kNone:
      return "See the network and the devices (NCCL_DEBUG=INFO, dmesg for XIDs), then `stepscope hang` on Flight "
             "Recorder dumps: they tell what each rank has issued and begun";
    case Cause::kTransport:
      return "All ranks are in the same operation: see the network or the devices (NCCL_DEBUG=INFO, dmesg), then "
             "`stepscope hang` on Flight Recorder dumps";
    case Cause::kPeerNotSeen: return "See the logs of the job's other nodes; ranks that were not seen are waited for";
    default: return "Look at this line: a sleep, a lock, a loop without end, a call that does not return";
  }
}

struct Verdict {
  Cause cause = Cause::kNone;
  std::vector<int> culprits, victims;
  std::string words;
  bool by_history = false;  // who is named is told by what the ranks did before
  bool worker = false;      // what the first culprit waits for is a loader worker
  bool sides = false;       // the words say what each rank does, those of the victims too
  bool placed = false;      // the words say in which step
};

// Of ranks in different operations: which of them is wrong, where what they did before tells.
void name_odd_ones(const std::vector<StandsIn>& calls, Verdict& v) {
  v.sides = true;
  const std::vector<int> odd = odd_ones(calls);
  const auto ended = std::find_if(calls.begin(), calls.end(), [](const StandsIn& c) { return c.first->data_ended; });
  if (odd.empty() && v.culprits.size() < calls.size()) return;  // a majority told
  if (odd.empty()) {
    v.words +=
        ended != calls.end()
            ? formatted("; the data of rank {} ended: it had too little, or the others too much", ended->first->rank)
            : "; what they did before does not tell which of them is wrong";
    return;
  }
  v.culprits = odd;
  v.by_history = true;
  v.victims.clear();
  for (const auto& [rank, op] : calls)
    if (std::find(odd.begin(), odd.end(), rank->rank) == odd.end()) v.victims.push_back(rank->rank);
  std::sort(v.victims.begin(), v.victims.end());
  v.words += formatted("; {} never did so before, {} as always", format_ranks(odd),
                       v.victims.size() == 1 ? format_ranks(v.victims) + " does" : format_ranks(v.victims) + " do");
}

// The step in which it was issued: the host may have gone on since.
uint64_t step_of(const RankStanding& r, uint64_t group, const IssuedOp& op) {
  const uint64_t since = r.groups.at(group).newest.back().step_ends - op.step_ends;
  return r.steps - std::min(r.steps, since);
}

// Everybody has issued it: do they mean the same?
std::optional<Verdict> mismatch(const JobStanding& job, const WaitChain& wait, uint64_t group, uint64_t sequence) {
  std::map<std::pair<uint8_t, uint64_t>, std::vector<int>> said;
  std::vector<int> ranks;
  std::vector<StandsIn> calls;
  const IssuedOp* first = nullptr;
  bool uneven = false;  // some are inside a step, or another step, and some are not
  for (const RankStanding& r : job.ranks) {
    const IssuedOp* op = issued_by(r, group, sequence);
    if (!op) continue;
    if (!first) first = op;
    uneven = uneven || op->in_backward != first->in_backward || op->step_ends != first->step_ends;
    said[{op->op, must_agree_in_size(op->op) ? op->bytes : 0}].push_back(r.rank);
    ranks.push_back(r.rank);
    calls.emplace_back(&r, op);
  }
  if (said.size() < 2) return std::nullopt;
  Verdict v;
  v.culprits = ranks;
  v.cause = uneven ? Cause::kUnevenSteps : Cause::kMismatchedCollective;
  // The smaller side has left the way of the others, where there is one.
  std::vector<std::string> sides;
  size_t most = 0, largest = 0;
  for (const auto& [what, side] : said) most = std::max(most, side.size());
  for (const auto& [what, side] : said) largest += side.size() == most;
  if (largest == 1 && !uneven) {
    v.culprits.clear();
    for (const auto& [what, side] : said)
      for (const int rank : side) (side.size() == most ? v.victims : v.culprits).push_back(rank);
    std::sort(v.culprits.begin(), v.culprits.end());
  }
  for (const auto& [what, side] : said) {
    std::string text = formatted("{} called {}", format_ranks(side), op_name(static_cast<CollectiveOp>(what.first)));
    if (what.second) text += formatted(" ({} bytes)", what.second);
    const RankStanding& r = *wait.standing(side.front());
    const IssuedOp& op = *issued_by(r, group, sequence);
    text += op.in_backward ? formatted(" in the backward of step {}", step_of(r, group, op))
                           : formatted(" outside of backward");
    sides.push_back(text);
  }
  v.words = formatted("at place {} of the group ", sequence);
  for (size_t i = 0; i < sides.size(); ++i) v.words += (i ? ", " : "") + sides[i];
  name_odd_ones(calls, v);
  return v;
}

// The first place of a group at which its members, all of them silent, have not issued the same. Where the device waits
// and not the host, that place is behind: the hosts went on, and stand wherever their queues were full.
std::optional<Verdict> first_mismatch(const JobStanding& job, const WaitChain& wait) {
  std::map<uint64_t, std::set<uint64_t>> places;
  std::set<uint64_t> moving;
  for (const RankStanding& r : job.ranks)
    for (const auto& [group, place] : r.groups) {
      if (!r.ended && r.silent_s < r.patience_s) moving.insert(group);
      for (const IssuedOp& op : place.newest) places[group].insert(op.sequence);
    }
  for (const auto& [group, sequences] : places)
    for (const uint64_t sequence : sequences)
      if (!moving.contains(group))
        if (auto found = mismatch(job, wait, group, sequence)) return found;
  return std::nullopt;
}

// What each of them is blocked in; empty where that is not known of all, or they exchange messages.
std::vector<StandsIn> calls_of(const WaitChain& wait, const std::set<int>& waiting) {
  std::vector<StandsIn> calls;
  for (const int rank : waiting) {
    const auto& edge = wait.edge(rank);
    const RankStanding* r = wait.standing(rank);
    const IssuedOp* op = edge.init || edge.message ? nullptr : issued_by(*r, edge.group, edge.sequence);
    if (!op) return {};
    calls.emplace_back(r, op);
  }
  return calls;
}

bool patient(const RankStanding& r) {
  if (r.ended) return false;
  const bool native = !r.stack || !r.stack->in_interpreter;
  return r.silent_s < r.patience_s * (computes(r) && native ? kLongStep : 1);
}

// The newest operation of all groups of which it is known what it is.
std::string newest_of(const WaitChain& wait, const RankStanding& r) {
  const IssuedOp* newest = nullptr;
  uint64_t of = 0;
  for (const auto& [group, place] : r.groups) {
    if (place.newest.empty() || place.newest.back().op == static_cast<uint8_t>(CollectiveOp::kUnknown)) continue;
    if (!newest || place.newest.back().time_ns > newest->time_ns) newest = &place.newest.back(), of = group;
  }
  return newest ? wait.words_of(of, newest->sequence, newest) : "";
}

// Everybody has issued the same, and devices do not finish: whose, where they tell how far they have come.
Verdict wait_for_devices(const JobStanding& job, const WaitChain& wait) {
  Verdict v;
  for (const RankStanding& r : job.ranks) v.victims.push_back(r.rank);
  const std::string up_to = newest_of(wait, job.ranks.front());
  const std::string same = up_to.empty() ? "" : formatted(", up to {}", up_to);
  v.culprits = devices_behind(job);
  if (v.culprits.empty()) {
    v.words = formatted(
        "all ranks have issued the same{}, and wait for their devices, which do not finish: the link, "
        "or the work of one of them",
        same);
    return v;
  }
  std::erase_if(v.victims, [&](int rank) { return std::ranges::find(v.culprits, rank) != v.culprits.end(); });
  const bool one = v.culprits.size() == 1;
  if (one) v.cause = Cause::kDeviceWork;
  v.placed = true;
  v.words = formatted("{} for {} device{}, which {} not reach {}; {} of {} {}, and all have issued the same{}",
                      one ? "waits" : "wait", one ? "its" : "their", one ? "" : "s", one ? "does" : "do",
                      device_words(*wait.standing(v.culprits.front())), v.victims.size() == 1 ? "that" : "those",
                      format_ranks(v.victims), v.victims.size() == 1 ? "has" : "have", same);
  return v;
}

// On a device nobody is seen waiting: all ranks are silent, none of them is behind the others, and none runs Python.
bool all_wait_for_devices(const JobStanding& job) {
  size_t members = 0;
  for (const RankStanding& r : job.ranks) {
    if (r.ended || r.leaving || r.awaits || r.in_init || r.silent_s < r.patience_s) return false;
    if (!r.stack || r.stack->holds_gil || r.state == 'T' || r.state == 't') return false;
    if (kept_by_own_code(r) || waits_for_file(r.wait_channel)) return false;
    members += !r.groups.empty();
  }
  return members > 1 && members == job.ranks.size();
}

std::optional<Verdict> verdict_of(const JobStanding& job, const WaitChain& wait) {
  if (auto found = first_mismatch(job, wait)) return found;
  std::set<int> roots, waiting;
  for (const RankStanding& r : job.ranks) {
    if (r.ended || r.leaving || r.silent_s < r.patience_s) continue;
    for (const int root : wait.roots_of(r.rank)) roots.insert(root);
    if (wait.edge(r.rank).blocked) waiting.insert(r.rank);
  }
  if (waiting.empty() && all_wait_for_devices(job)) return wait_for_devices(job, wait);
  // Those who wait in a ring, or in an operation that everybody has issued.
  if (roots.empty() ||
      std::all_of(roots.begin(), roots.end(), [&](int r) { return wait.standing(r) && wait.edge(r).blocked; })) {
    if (waiting.empty()) return std::nullopt;
    // Also where one of them has not been silent for long yet: it is in the operation that the others wait in.
    for (const int rank : waiting)
      if (const auto& edge = wait.edge(rank); !edge.init && !edge.message)
        if (auto found = mismatch(job, wait, edge.group, edge.sequence)) return found;
    Verdict v;
    v.cause = roots.empty() ? Cause::kMismatchedCollective : Cause::kTransport;
    if (roots.empty()) {
      v.culprits.assign(waiting.begin(), waiting.end());
      v.words = "the ranks wait for each other in different operations";
      for (const int rank : waiting)
        v.words += formatted("{} {}", rank == *waiting.begin() ? ":" : ",", wait.waited_in({rank}));
      name_odd_ones(calls_of(wait, waiting), v);
      return v;
    }
    v.victims.assign(waiting.begin(), waiting.end());
    if (std::any_of(job.ranks.begin(), job.ranks.end(), [](const auto& r) { return r.device && r.device->pending; }))
      return wait_for_devices(job, wait);
    const auto& edge = wait.edge(*waiting.begin());
    const IssuedOp* op = issued_by(*wait.standing(*waiting.begin()), edge.group, edge.sequence);
    // Counted waits of a torch that does not tell what they are for: that all wait for the same is not known.
    const bool told = edge.init || edge.message || (op && op->op != static_cast<uint8_t>(CollectiveOp::kUnknown));
    if (!told) v.cause = Cause::kNone;
    v.words = edge.init ? "all ranks are in init_process_group, which does not return"
                        : formatted("all ranks have issued {}, which does not end",
                                    wait.words_of(edge.group, edge.sequence, op));
    if (!told)
      v.words = formatted("all ranks wait in {}, and this torch does not tell in which operations: they may differ",
                          wait.words_of(edge.group, edge.sequence, nullptr));
    return v;
  }
  Verdict v;
  std::vector<int> unseen;
  Reason reason;
  for (const int rank : roots) {
    const RankStanding* r = wait.standing(rank);
    if (!r) {
      unseen.push_back(rank);
      continue;
    }
    if (wait.edge(rank).blocked) continue;  // it waits as well, for nobody known
    if (patient(*r)) return std::nullopt;   // busy with something long
    v.culprits.push_back(rank);
  }
  if (v.culprits.empty()) {
    v.cause = Cause::kPeerNotSeen;
    v.words = formatted("{} {} not seen", format_ranks(unseen), unseen.size() == 1 ? "was" : "were");
  } else {
    const RankStanding& first = *wait.standing(v.culprits.front());
    reason = reason_of(first);
    v.placed = reason.cause == Cause::kRankSilent && !kept_by_own_code(first) && devices_behind(job) == v.culprits;
    if (v.placed)
      reason = {Cause::kDeviceWork, formatted("waits for its device, which does not reach {}", device_words(first))};
    v.cause = reason.cause;
    v.worker = reason.worker;
    v.words =
        v.culprits.size() == 1 ? reason.words : formatted("stand still: rank {} {}", v.culprits.front(), reason.words);
  }
  for (const int rank : waiting)
    if (std::find(v.culprits.begin(), v.culprits.end(), rank) == v.culprits.end()) v.victims.push_back(rank);
  return v;
}

void add_evidence(const JobStanding& job, const WaitChain& wait, Finding& f) {
  for (const RankStanding& r : job.ranks) {
    f.evidence.push_back({"silent_s", r.rank, r.silent_s, {}, ""});
    if (r.stack && !r.stack->frames.empty())
      f.evidence.push_back({"where", r.rank, {}, {}, place_in_program(r.stack->frames)});
    else if (!r.no_stack.empty() && !r.ended)
      f.evidence.push_back({"no_stack", r.rank, {}, {}, r.no_stack});
    if (r.state && !r.ended) {
      std::string text(1, r.state);
      if (!r.wait_channel.empty()) text += " " + r.wait_channel;
      f.evidence.push_back({"process_state", r.rank, {}, {}, text});
    }
    for (const StuckWorker& w : r.stuck_workers)
      f.evidence.push_back({"worker",
                            r.rank,
                            w.stands_s,
                            {},
                            formatted("worker {}, process {}, stands in {}", w.worker, w.pid, w.wait_channel)});
    if (r.device && r.device->pending && !r.ended)
      f.evidence.push_back({"device_not_at", r.rank, {}, {}, device_words(r)});
    if (r.cpu_share) f.evidence.push_back({"cpu_share", r.rank, *r.cpu_share, {}, ""});
    if (!r.exception.empty()) f.evidence.push_back({"exception", r.rank, {}, {}, r.exception});
    if (wait.edge(r.rank).blocked && !wait.edge(r.rank).init)
      f.evidence.push_back({"waits_in", r.rank, {}, {}, wait.waited_in({r.rank})});
  }
  for (const std::string& line : merged_stacks(job)) f.evidence.push_back({"stack", {}, {}, {}, line});
}

}  // namespace

std::optional<Finding> judge_fallen(const JobStanding& job) {
  const WaitChain wait(job);
  for (const RankStanding& r : job.ranks) {
    if (r.exception.empty() && (!r.ended || r.clean || r.exit_signal == SIGTERM)) continue;
    for (const auto& [group, place] : r.groups) {
      if (place.newest.empty()) continue;
      const uint64_t last = place.newest.back().sequence;
      const auto found = mismatch(job, wait, group, last);
      if (!found || (last > 0 && mismatch(job, wait, group, last - 1))) continue;
      Finding f = Finding::of(FindingKind::kRankLost);
      f.severity = Severity::kCrit;
      f.ranks = found->culprits;
      f.victims = found->victims;
      f.cause = found->cause;
      f.confidence = found->by_history ? 0.9 : 0.98;
      f.title = formatted("The job ended in step {}: {}", r.steps, found->words);
      f.action = action_for(found->cause, false);
      return f;
    }
  }
  return std::nullopt;
}

void tell_fallen(const Finding& fallen, std::vector<Finding>& findings) {
  for (Finding& f : findings) {
    if (f.kind != FindingKind::kRankLost || f.severity != Severity::kCrit) continue;
    const auto took_part = [&](int rank) {
      return std::ranges::find(fallen.ranks, rank) != fallen.ranks.end() ||
             std::ranges::find(fallen.victims, rank) != fallen.victims.end();
    };
    if (!std::ranges::any_of(f.ranks, took_part)) continue;
    f.evidence.insert(f.evidence.begin(), {"consequence", f.ranks.front(), {}, {}, f.title});
    f.ranks = fallen.ranks;
    f.victims = fallen.victims;
    f.cause = fallen.cause;
    f.confidence = fallen.confidence;
    f.title = fallen.title;
    f.action = fallen.action;
  }
}

void add_hang(const Finding& hang, std::vector<Finding>& findings) {
  for (Finding& f : findings) {
    const bool open_step =
        std::any_of(f.evidence.begin(), f.evidence.end(), [](const Evidence& e) { return e.name == "open_step_s"; });
    if (f.kind == FindingKind::kIncompleteData && open_step) f.severity = Severity::kInfo;
    // Its exit code was not known yet when it was seen on its way out.
    const bool by_code = hang.cause == Cause::kUnevenSteps && f.cause == Cause::kExitCode;
    const bool root = (hang.cause == Cause::kRankExited || by_code) && f.ranks == hang.ranks;
    if (f.kind != FindingKind::kRankLost || root) continue;
    f.severity = Severity::kInfo;
    f.title += "; the job stood still before";
  }
  findings.push_back(hang);
}

std::optional<Finding> judge_hang(const JobStanding& job) {
  const WaitChain wait(job);
  const auto verdict = verdict_of(job, wait);
  if (!verdict) return std::nullopt;
  Finding f = Finding::of(FindingKind::kHang);
  f.severity = Severity::kCrit;
  f.ranks = verdict->culprits;
  f.victims = verdict->victims;
  f.job_scope = f.ranks.empty();
  f.cause = verdict->cause;
  const RankStanding* first = f.ranks.empty() ? &job.ranks.front() : wait.standing(f.ranks.front());
  f.phase = first->leaving ? std::string(name(Category::kTeardown)) : std::string(name(first->phase));
  uint64_t step = 0;
  double silent_s = 0;
  for (const RankStanding& r : job.ranks) {
    step = std::max(step, r.steps);
    if (!r.ended) silent_s = std::max(silent_s, r.silent_s);
  }
  if (!f.ranks.empty()) step = first->steps;
  f.first_step = f.last_step = f.detected_step = static_cast<int64_t>(step);
  f.cost_seconds = silent_s;
  f.cost_share = job.run_s > 0 ? std::min(1.0, silent_s / job.run_s) : 0;
  f.coverage = job.world > 0 ? static_cast<double>(job.ranks.size()) / job.world : 1;
  const bool by_evidence = first->stack || first->ended || verdict->cause == Cause::kStopped ||
                           verdict->cause == Cause::kMismatchedCollective || verdict->cause == Cause::kUnevenSteps;
  f.confidence = by_evidence && !verdict->by_history ? 0.98 : 0.9;
  const std::string wait_words = wait.waited_in(f.victims);
  if (f.ranks.empty() || verdict->sides)
    f.title = formatted("The job stands in step {}: {}", step, verdict->words);
  else if (verdict->placed)
    f.title = formatted("{} {}", capitalized(format_ranks(f.ranks)), verdict->words);
  else if (!first->joined)
    f.title = formatted("{} {} before init_process_group", capitalized(format_ranks(f.ranks)), verdict->words);
  else
    f.title = formatted("{} {} in step {}", capitalized(format_ranks(f.ranks)), verdict->words, step);
  if (!wait_words.empty() && !f.ranks.empty() && !verdict->sides) f.title += "; " + wait_words;
  if (!first->joined && !f.victims.empty()) f.title += formatted(", for {:.0f} s", silent_s);
  f.action = action_for(verdict->cause, verdict->worker);
  add_evidence(job, wait, f);
  return f;
}

}  // namespace stepscope
