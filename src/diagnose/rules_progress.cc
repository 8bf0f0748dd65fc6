// RANK_LOST: the first rank that ended out of order; those that fell because of it are its victims. A rank that dies
// after its last step, in teardown, is reported as information (torch's own threads abort there now and then).
#include <algorithm>
#include <csignal>

#include "base/text_format.h"
#include "diagnose/rule.h"

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
Finding peer_lost(const RuleInput& in, const std::vector<std::pair<int, const RankLife*>>& dead) {
  FindingBuilder f = in.finding(FindingKind::kRankLost);
  f.graded(Severity::kCrit).about_job().in(dead.front().second->open_phase).caused_by(Cause::kPeerNotSeen);
  for (const auto& [rank, life] : dead) f.also_holding_up(rank);
  f.at_step(static_cast<int64_t>(dead.front().second->steps)).confidence(0.9);
  f.title(formatted("{} lost the connection to a rank that was not seen, after step {}",
                    capitalized(format_ranks(f->victims)), static_cast<int64_t>(dead.front().second->steps) - 1))
      .action("See the logs of the job's other nodes: a rank there ended first, what is seen here is its echo")
      .evidence("exception", dead.front().second->exception, dead.front().first);
  return f;
}

}  // namespace

void judge_progress(const RuleInput& in, std::vector<Finding>& out) {
  std::vector<std::pair<int, const RankLife*>> dead;
  for (const auto& [rank, life] : *in.lives)
    if (life.ended && (!life.clean_exit || !life.exception.empty()) && !was_asked_to_stop(life))
      dead.push_back({rank, &life});
  if (dead.empty()) return;
  std::stable_sort(dead.begin(), dead.end(), [](const auto& a, const auto& b) {
    const bool a_victim = blames_a_peer(a.second->exception), b_victim = blames_a_peer(b.second->exception);
    if (a_victim != b_victim) return b_victim;
    return moment_of(*a.second) < moment_of(*b.second);
  });
  const auto& [rank, life] = dead.front();
  if (in.half_seen() && blames_a_peer(life->exception)) return out.push_back(peer_lost(in, dead));
  const bool teardown = life->teardown_begun && life->exception.empty();
  FindingBuilder f = in.finding(FindingKind::kRankLost);
  f.graded(teardown ? Severity::kInfo : Severity::kCrit).about(rank);
  for (const auto& [other, l] : *in.lives)
    if (other != rank) f.also_holding_up(other);
  f.in(teardown ? Category::kTeardown : life->open_phase)
      .caused_by(!life->exception.empty() ? CauseWord(Cause::kException)
                 : life->exit_signal      ? numbered(Cause::kSignal, life->exit_signal)
                 : life->exit_code > 0    ? CauseWord(Cause::kExitCode)
                                          : Cause::kKilled);
  // Its last word says so; a failure that the program survived long ago is no cause.
  if (!life->out_of_memory.empty() && life->exception.find("OutOfMemory") != std::string::npos)
    f.caused_by(Cause::kOutOfMemory);
  f.at_step(static_cast<int64_t>(life->steps)).confidence(life->exit_signal || !life->exception.empty() ? 0.99 : 0.9);
  std::string how = !life->exception.empty() ? formatted("left with {}", life->exception)
                    : life->exit_signal      ? formatted("was killed by signal {}", life->exit_signal)
                    : life->exit_code > 0    ? formatted("ended with exit code {}", life->exit_code)
                                             : std::string("died without a word");
  f.title(life->steps == 0
              ? formatted("Rank {} {} before its first step", rank, how)
              : formatted("Rank {} {} {} step {}{}", rank, how, teardown ? "in teardown, after its last" : "after",
                          life->steps - 1,
                          teardown || life->open_phase == Category::kUnattributed ? "" : ", in " + f->phase))
      .action(
          !life->exception.empty() ? "See this rank's traceback; the other ranks' errors are only its echo"
          : life->exit_signal == SIGKILL
              ? "SIGKILL usually is the out-of-memory killer: check dmesg and the memory limit of the job"
          : life->exit_code > 0 && !life->exit_signal
              ? "It ended by itself, without an exception (os._exit, abort of a library): see the last lines of its log"
              : "See this rank's log, the kernel's log (dmesg) and the scheduler's");
  if (teardown) f.action("Harmless for the result; torch's communication threads abort at exit now and then");
  f.evidence("steps_completed", static_cast<double>(life->steps), rank);
  if (life->exit_signal) f.evidence("exit_signal", life->exit_signal, rank);
  if (life->exit_code > 0) f.evidence("exit_code", life->exit_code, rank);
  if (!life->exception.empty()) f.evidence("exception", life->exception, rank);
  out.push_back(f);
}

}  // namespace stepscope
