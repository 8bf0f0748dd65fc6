// RANK_LOST: the first rank that ended out of order; those that fell because of it are its victims, and what they say
// is told as a consequence. A rank that dies after its last step, in teardown, is reported as information (torch's own
// threads abort there now and then). Where nobody came as far as being a rank, the launch command itself is what
// failed.
#include <algorithm>
#include <csignal>

#include "align/rank_end.h"
#include "base/text_format.h"
#include "diagnose/rule.h"
#include "diagnose/stack_text.h"

namespace stepscope {

namespace {

bool has_any(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* w) { return text.find(w) != std::string::npos; });
}

// It says that somebody else is gone, or did not come.
bool blames_a_peer(const std::string& exception) {
  return has_any(exception, {"onnection closed by peer", "onnection reset by peer", "Broken pipe", "DistBackendError",
                             "onnection refused", "imed out waiting", "imed out after", "wait timeout after",
                             "client socket has timed out", "Socket Timeout", "failed to recv, got 0 bytes"});
}

bool was_asked_to_stop(const RankLife& life) { return told_to_end(life) || life.exception.starts_with("SystemExit"); }

int64_t moment_of(const RankLife& life) { return life.exception_ns ? life.exception_ns : life.end_ns; }

using Dead = std::vector<std::pair<int, const RankLife*>>;

// Each that fell says that somebody else was gone first, and some ranks were not seen: the first is one of those.
Finding peer_lost(const RuleInput& in, const Dead& dead) {
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

int64_t left_ns(const RankLife& life) { return life.leaving_ns ? life.leaving_ns : life.end_ns; }

// A rank that was through with the program while the others trained on: what they say of a lost connection is its echo.
const RankLife* left_before(const RuleInput& in, const RankLife& failed, int& rank) {
  const RankLife* left = nullptr;
  for (const auto& [other, life] : *in.lives) {
    if (!life.exception.empty() || life.stopped) continue;
    // Its process may outlast its connections for a while, and be ended by the launcher meanwhile.
    if (life.leaving_ns == 0 && !(life.ended && life.clean_exit)) continue;
    if (life.steps > failed.steps || left_ns(life) > moment_of(failed)) continue;
    if (!left || left_ns(life) < left_ns(*left)) left = &life, rank = other;
  }
  return left;
}

// Every rank seen ended with this code after as many steps: the program's own word to its launcher (come again, done).
bool all_say_so(const RuleInput& in, const RankLife& life) {
  return life.exit_code > 0 && life.steps > 0 && in.lives->size() > 1 &&
         std::all_of(in.lives->begin(), in.lives->end(), [&](const auto& entry) {
           const RankLife& other = entry.second;
           return other.ended && other.exception.empty() && other.exit_code == life.exit_code &&
                  other.steps == life.steps;
         });
}

// "; rank 0 waited 4 s in init_process_group" for it, or where others waited for it.
std::string waited_for(const RuleInput& in, int culprit, const RankLife& first) {
  std::vector<int> waiting;
  double longest_s = 0;
  for (const auto& [rank, life] : *in.lives) {
    if (rank == culprit || life.init_begin_ns == 0 || life.init_end_ns > 0) continue;
    const int64_t until_ns = life.ended ? life.end_ns : std::max(in.now_ns, moment_of(first));
    waiting.push_back(rank);
    longest_s = std::max(longest_s, static_cast<double>(until_ns - life.init_begin_ns) * 1e-9);
  }
  if (waiting.empty()) return "";
  return formatted("; {} waited {:.0f} s in init_process_group", format_ranks(waiting), longest_s);
}

bool killed_for_memory(const RankLife& life) {
  return life.exit_signal == SIGKILL && (life.oom_kill == OomKill::kInGroup || life.oom_kill == OomKill::kOnHost);
}

std::string how_of(const RankLife& life) {
  if (!life.exception.empty()) return "left with " + exception_words(life);
  if (killed_for_memory(life)) return "was killed by the kernel for memory";
  if (life.exit_signal) return formatted("was killed by signal {}", life.exit_signal);
  if (life.exit_code > 0) return formatted("ended with exit code {}", life.exit_code);
  if (life.exit_code == 0) return "left the program in order";
  return "died without a word";
}

std::string action_for(const RankLife& life) {
  if (has_any(life.exception, {"EADDRINUSE", "ddress already in use"}))
    return "Another program, or a job before this one, holds that port on this node: end it, or launch with another "
           "--master-port (torchrun --standalone takes a free one)";
  if (has_any(life.exception, {"client socket has timed out", "client socket has failed"}))
    return "Nothing answers at MASTER_ADDR:MASTER_PORT: see that rank 0 runs there, and that name, port and firewall "
           "are "
           "right";
  if (has_any(life.exception, {"ModuleNotFoundError", "ImportError"}))
    return "Install what is missing into the environment of this rank, or see which Python and PYTHONPATH it runs with";
  if (!life.exception.empty()) return "See this rank's traceback; the other ranks' errors are only its echo";
  if (killed_for_memory(life))
    return life.oom_kill == OomKill::kInGroup
               ? "The memory limit of its control group is reached: raise it, or use less (loader workers, batch, "
                 "prefetch)"
               : "This host ran out of memory: fewer ranks or loader workers per host, or more memory";
  if (life.exit_signal == SIGKILL && life.oom_kill == OomKill::kNone)
    return "The kernel counted no out-of-memory kill: a scheduler, a watchdog or a user sent SIGKILL; see their logs";
  if (life.exit_signal == SIGKILL)
    return "SIGKILL usually is the out-of-memory killer: check dmesg and the memory limit of the job";
  if (life.exit_code > 0 && !life.exit_signal)
    return "It ended by itself, without an exception (sys.exit, os._exit, abort of a library): see the last lines of "
           "its "
           "log";
  return "See this rank's log, the kernel's log (dmesg) and the scheduler's";
}

// What the others said after it, in the order in which they did.
void tell_consequences(const Dead& dead, FindingBuilder& f) {
  for (size_t i = 1; i < dead.size(); ++i) f.evidence("consequence", how_of(*dead[i].second), dead[i].first);
}

// The first to go: what it was in, how it went, and what the others had of it.
Finding lost(const RuleInput& in, const Dead& dead) {
  const auto& [rank, life] = dead.front();
  FindingBuilder f = in.finding(FindingKind::kRankLost);
  const bool by_code = life->exit_code > 0 && life->exception.empty();
  const bool teardown =
      life->exception.empty() && (by_code ? all_say_so(in, *life) || life->group_destroyed : life->teardown_begun);
  const bool harmless = teardown && (!by_code || all_say_so(in, *life));
  f.graded(harmless ? Severity::kInfo : Severity::kCrit).about(rank);
  for (const auto& [other, l] : *in.lives)
    if (other != rank) f.also_holding_up(other);
  const bool at_start = life->steps == 0 && life->init_end_ns == 0;
  f.in(teardown   ? Category::kTeardown
       : at_start ? Category::kStartup
                  : life->open_phase)
      .caused_by(!life->exception.empty() ? CauseWord(Cause::kException)
                 : life->exit_signal      ? numbered(Cause::kSignal, life->exit_signal)
                 : life->exit_code > 0    ? CauseWord(Cause::kExitCode)
                                          : Cause::kKilled);
  // Its last word says so; a failure that the program survived long ago is no cause.
  if (!life->out_of_memory.empty() && life->exception.find("OutOfMemory") != std::string::npos)
    f.caused_by(Cause::kOutOfMemory);
  if (killed_for_memory(*life) && life->exception.empty()) {
    f.caused_by(Cause::kOomKill);
    f.evidence("oom_kill", life->oom_kill == OomKill::kInGroup ? "counted in its control group" : "counted on its host",
               rank);
  }
  f.at_step(static_cast<int64_t>(life->steps)).confidence(life->exit_signal || !life->exception.empty() ? 0.99 : 0.9);
  const std::string how = how_of(*life);
  if (life->steps == 0)
    f.title(formatted("Rank {} {} before its first step{}", rank, how, waited_for(in, rank, *life)));
  else
    f.title(formatted("Rank {} {} {} step {}{}", rank, how, teardown ? "in teardown, after its last" : "after",
                      life->steps - 1,
                      teardown || by_code || life->open_phase == Category::kUnattributed ? "" : ", in " + f->phase));
  f.action(action_for(*life));
  if (harmless && !by_code)
    f.action("Harmless for the result; torch's communication threads abort at exit now and then");
  if (harmless && by_code) f.action("All ranks ended so after their last step: the program's own word to its launcher");
  f.evidence("steps_completed", static_cast<double>(life->steps), rank);
  if (life->exit_signal) f.evidence("exit_signal", life->exit_signal, rank);
  if (life->exit_code > 0) f.evidence("exit_code", life->exit_code, rank);
  if (!life->exception.empty()) f.evidence("exception", life->exception, rank);
  if (const std::string place = place_in_program(frames_of_text(life->exception_frames)); !place.empty())
    f.evidence("where", place, rank);
  tell_consequences(dead, f);
  return f;
}

Finding left_early(const RuleInput& in, int rank, const RankLife& life, const Dead& dead) {
  FindingBuilder f = in.finding(FindingKind::kRankLost);
  f.graded(Severity::kCrit).about(rank).in(life.open_phase).caused_by(Cause::kUnevenSteps).confidence(0.9);
  for (const auto& [other, l] : dead) f.also_holding_up(other);
  f.at_step(static_cast<int64_t>(life.steps));
  f.title(formatted("Rank {} left the program in order after {}; {} went on and lost the connection to it", rank,
                    format_steps(life.steps), format_ranks(f->victims)))
      .action("Give every rank the same number of steps (drop_last, equal shards, Join): see where the loop is left")
      .evidence("steps_completed", static_cast<double>(life.steps), rank);
  for (const auto& [other, l] : dead) f.evidence("consequence", how_of(*l), other);
  return f;
}

// Nobody came as far as being a rank.
Finding command_failed(const RuleInput& in, const RankLife& command) {
  FindingBuilder f = in.finding(FindingKind::kRankLost);
  f.graded(Severity::kCrit).about_job().in(Category::kStartup).confidence(command.exception.empty() ? 0.9 : 0.99);
  f.caused_by(!command.exception.empty() ? CauseWord(Cause::kException)
              : command.exit_signal      ? numbered(Cause::kSignal, command.exit_signal)
                                         : Cause::kExitCode);
  f.title(formatted("The launch command {} before any rank trained", how_of(command)));
  f.action(command.exception.empty() ? "What it said before it ended, on its own output, tells why; no rank was seen"
                                     : action_for(command));
  if (command.exit_signal) f.evidence("exit_signal", command.exit_signal);
  if (command.exit_code > 0) f.evidence("exit_code", command.exit_code);
  if (!command.exception.empty()) f.evidence("exception", command.exception);
  if (const std::string place = place_in_program(frames_of_text(command.exception_frames)); !place.empty())
    f.evidence("where", place);
  return f;
}

}  // namespace

void judge_progress(const RuleInput& in, std::vector<Finding>& out) {
  Dead dead;
  for (const auto& [rank, life] : *in.lives)
    if (life.ended && (!life.clean_exit || !life.exception.empty()) && !was_asked_to_stop(life))
      dead.emplace_back(rank, &life);
  if (dead.empty()) {
    if (in.failed_command && in.over && in.steps_closed == 0) out.push_back(command_failed(in, *in.failed_command));
    return;
  }
  std::stable_sort(dead.begin(), dead.end(), [](const auto& a, const auto& b) {
    const bool a_victim = blames_a_peer(a.second->exception), b_victim = blames_a_peer(b.second->exception);
    if (a_victim != b_victim) return b_victim;
    return moment_of(*a.second) < moment_of(*b.second);
  });
  const RankLife& first = *dead.front().second;
  if (blames_a_peer(first.exception)) {
    int rank = -1;
    if (const RankLife* left = left_before(in, first, rank)) return out.push_back(left_early(in, rank, *left, dead));
    if (in.half_seen() && first.steps > 0) return out.push_back(peer_lost(in, dead));
  }
  out.push_back(lost(in, dead));
}

}  // namespace stepscope
