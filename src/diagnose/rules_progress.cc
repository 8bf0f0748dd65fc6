// RANK_LOST: the first rank that ended out of order; those that fell because of it are its victims. A rank that dies
// after its last step, in teardown, is reported as information (torch's own threads abort there now and then).
// LATE_START: ranks that reached init_process_group long after the others.
#include <algorithm>
#include <csignal>

#include "analyze/robust.h"
#include "base/text_format.h"
#include "diagnose/judged.h"

namespace stepscope {

namespace {

bool blames_a_peer(const std::string& exception) {
  for (const char* words :
       {"onnection closed by peer", "onnection reset by peer", "Broken pipe", "DistBackendError", "onnection refused"})
    if (exception.find(words) != std::string::npos) return true;
  return false;
}

bool was_asked_to_stop(const RankLife& life) {
  return life.exit_signal == SIGTERM || life.exit_signal == SIGINT || life.exception.starts_with("KeyboardInterrupt") ||
         life.exception.starts_with("SystemExit");
}

int64_t moment_of(const RankLife& life) { return life.exception_ns ? life.exception_ns : life.end_ns; }

// Each that fell says that somebody else was gone first, and some ranks were not seen: the first is one of those.
Finding peer_lost(const Judged& j, const std::vector<std::pair<int, const RankLife*>>& dead) {
  Finding f = Finding::of(FindingKind::kRankLost);
  f.severity = Severity::kCrit;
  f.job_scope = true;
  f.phase = std::string(name(dead.front().second->open_phase));
  f.cause = Cause::kPeerNotSeen;
  for (const auto& [rank, life] : dead) f.victims.push_back(rank);
  f.first_step = f.last_step = f.detected_step = dead.front().second->steps;
  f.coverage = j.coverage;
  f.confidence = 0.9;
  f.title = formatted("{} lost the connection to a rank that was not seen, after step {}",
                      capitalized(format_ranks(f.victims)), static_cast<int64_t>(dead.front().second->steps) - 1);
  f.action = "See the logs of the job's other nodes: a rank there ended first, what is seen here is its echo";
  f.evidence.push_back({"exception", dead.front().first, {}, {}, dead.front().second->exception});
  return f;
}

void rank_lost(const Judged& j, std::vector<Finding>& out) {
  std::vector<std::pair<int, const RankLife*>> dead;
  for (const auto& [rank, life] : *j.lives)
    if (life.ended && (!life.clean_exit || !life.exception.empty()) && !was_asked_to_stop(life))
      dead.push_back({rank, &life});
  if (dead.empty()) return;
  std::stable_sort(dead.begin(), dead.end(), [](const auto& a, const auto& b) {
    const bool a_victim = blames_a_peer(a.second->exception), b_victim = blames_a_peer(b.second->exception);
    if (a_victim != b_victim) return b_victim;
    return moment_of(*a.second) < moment_of(*b.second);
  });
  const auto& [rank, life] = dead.front();
  if (j.half_seen() && blames_a_peer(life->exception)) return out.push_back(peer_lost(j, dead));
  const bool teardown = life->teardown_begun && life->exception.empty();
  Finding f = Finding::of(FindingKind::kRankLost);
  f.severity = teardown ? Severity::kInfo : Severity::kCrit;
  f.ranks = {rank};
  for (const auto& [other, l] : *j.lives)
    if (other != rank) f.victims.push_back(other);
  f.phase = teardown ? std::string(name(Category::kTeardown)) : std::string(name(life->open_phase));
  f.cause = !life->exception.empty() ? Cause::kException
            : life->exit_signal      ? numbered(Cause::kSignal, life->exit_signal)
                                     : Cause::kKilled;
  // Its last word says so; a failure that the program survived long ago is no cause.
  if (!life->out_of_memory.empty() && life->exception.find("OutOfMemory") != std::string::npos)
    f.cause = Cause::kOutOfMemory;
  f.first_step = f.last_step = f.detected_step = life->steps;
  f.coverage = j.coverage;
  f.confidence = life->exit_signal || !life->exception.empty() ? 0.99 : 0.9;
  std::string how = !life->exception.empty() ? formatted("left with {}", life->exception)
                    : life->exit_signal      ? formatted("was killed by signal {}", life->exit_signal)
                    : life->exit_code > 0    ? formatted("ended with exit code {}", life->exit_code)
                                             : std::string("died without a word");
  f.title = life->steps == 0
                ? formatted("Rank {} {} before its first step", rank, how)
                : formatted("Rank {} {} {} step {}{}", rank, how, teardown ? "in teardown, after its last" : "after",
                            life->steps - 1,
                            teardown || life->open_phase == Category::kUnattributed ? "" : ", in " + f.phase);
  f.action = !life->exception.empty() ? "See this rank's traceback; the other ranks' errors are only its echo"
             : life->exit_signal == SIGKILL
                 ? "SIGKILL usually is the out-of-memory killer: check dmesg and the memory limit of the job"
                 : "See this rank's log, the kernel's log (dmesg) and the scheduler's";
  if (teardown) f.action = "Harmless for the result; torch's communication threads abort at exit now and then";
  f.evidence.push_back({"steps_completed", rank, static_cast<double>(life->steps), {}, ""});
  if (life->exit_signal) f.evidence.push_back({"exit_signal", rank, life->exit_signal, {}, ""});
  if (!life->exception.empty()) f.evidence.push_back({"exception", rank, {}, {}, life->exception});
  out.push_back(std::move(f));
}

void late_start(const Judged& j, std::vector<Finding>& out) {
  std::vector<double> begins;
  int64_t run_begin = INT64_MAX, run_end = 0;
  for (const auto& [rank, life] : *j.lives) {
    if (life.process_start_ns) run_begin = std::min(run_begin, life.process_start_ns);
    run_end = std::max(run_end, std::max(life.last_step_ns, life.end_ns));
    if (life.init_begin_ns) begins.push_back(static_cast<double>(life.init_begin_ns) * 1e-9);
  }
  if (begins.size() < 2) return;
  const double usual = lower_median(begins);
  Finding f = Finding::of(FindingKind::kLateStart);
  double latest = 0;
  for (const auto& [rank, life] : *j.lives) {
    const double late = static_cast<double>(life.init_begin_ns) * 1e-9 - usual;
    if (life.init_begin_ns == 0 || late < j.limits->late_start_s) continue;
    f.ranks.push_back(rank);
    latest = std::max(latest, late);
  }
  if (f.ranks.empty()) return;
  f.phase = std::string(name(Category::kStartup));
  const double run_s = static_cast<double>(run_end - run_begin) * 1e-9;
  f.cost_seconds = latest;
  f.cost_share = run_s > 0 ? std::min(1.0, latest / run_s) : 0;
  f.severity = std::max(Severity::kWarn, j.severity(f.cost_share));
  f.coverage = j.coverage;
  f.confidence = 0.99;
  for (const auto& [rank, life] : *j.lives)
    if (std::find(f.ranks.begin(), f.ranks.end(), rank) == f.ranks.end()) f.victims.push_back(rank);
  f.title = formatted("{} joined the process group {:.0f} s after the others{}", capitalized(format_ranks(f.ranks)),
                      latest, static_cast<int>(begins.size()) < j.world ? " seen" : "");
  f.action =
      "Look at what this rank does before init_process_group: imports, logins, data preparation, a slow file system";
  f.evidence.push_back({"late_s", {}, latest, {}, ""});
  out.push_back(std::move(f));
}

}  // namespace

void judge_progress(const Judged& j, std::vector<Finding>& out) {
  rank_lost(j, out);
  late_start(j, out);
}

}  // namespace stepscope
