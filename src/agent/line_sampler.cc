#include "agent/line_sampler.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/remote_rank.h"
#include "agent/stack_question.h"
#include "base/text_format.h"
#include "blackbox/layout.h"
#include "sampler/process_glance.h"

namespace stepscope {
namespace {

constexpr size_t kMostWaiting = 64;     // answers whose phase is not known yet
constexpr double kBusy = 0.1;           // of a core: less is no thread that keeps the GIL
constexpr size_t kMostSuspicions = 64;  // further ones are not asked about

std::string key_of(const Finding& f) {
  std::string key = f.kind.str() + "|" + f.phase;
  for (const int rank : f.ranks) key += "," + std::to_string(rank);
  return key;
}

size_t answers_in(const CodeSamples& code, int rank, const LineScope& scope) {
  const auto found = code.find(rank);
  if (found == code.end()) return 0;
  return static_cast<size_t>(std::count_if(found->second.begin(), found->second.end(),
                                           [&](const CodeSample& s) { return !s.beside && scope.holds(s); }));
}

}  // namespace

// The ranks of the finding first; where it is the whole job's, the lowest.
void LineSampler::want(const Finding& f, const LineScope& scope, Pipeline& pipeline,
                       const std::map<int, Pipeline::TailId>& all) {
  if (!spent_.contains(key_of(f)) && spent_.size() >= kMostSuspicions) return;
  std::vector<int> ranks;
  for (const auto& [rank, id] : all) {
    const bool named = f.ranks.empty() || std::find(f.ranks.begin(), f.ranks.end(), rank) != f.ranks.end();
    if (named && ranks.size() < kMostRanks) ranks.push_back(rank);
  }
  if (ranks.empty()) return;
  const CodeSamples& code = pipeline.engine().code();
  size_t counted = 0;
  for (const int rank : ranks) counted += answers_in(code, rank, scope);
  if (counted >= kEnough) return;
  if (scope.beyond_peer)
    for (const auto& [rank, id] : all)
      if (std::find(f.ranks.begin(), f.ranks.end(), rank) == f.ranks.end()) {
        ranks.push_back(rank);
        break;
      }
  std::map<int, int>& before = spent_[key_of(f)];
  for (const int rank : ranks) {
    Asked& asked = asked_[all.at(rank)];
    asked.rank = rank;
    const auto [known, fresh] = before.try_emplace(rank, asked.questions);
    const int most = counted < kFewest / 2 ? kHopeless : kMost;
    if (asked.questions - known->second < most) asked.wanted = true;
  }
}

void LineSampler::choose(Pipeline& pipeline, uint64_t now_ns, const std::set<TailId>& also) {
  choose_ns_ = now_ns + kChooseNs;
  std::map<int, Pipeline::TailId> ranks;
  for (auto& [id, asked] : asked_) asked.wanted = false;
  for (const Finding& f : pipeline.engine().said()) {
    if (!asks_for_lines(f)) continue;
    const auto scope = line_scope(f);
    if (!scope) continue;
    if (ranks.empty())
      for (const Pipeline::TailId id : pipeline.tails()) {
        const RankSource& tail = pipeline.tail(id);
        const bool leaving = tail.local() && tail.local()->leaving();
        if (pipeline.counts_as_rank(id) && !tail.ended() && !leaving) ranks[tail.identity().rank] = id;
      }
    want(f, *scope, pipeline, ranks);
  }
  for (const TailId id : also) {
    if (!pipeline.has(id) || !pipeline.counts_as_rank(id)) continue;
    Asked& asked = asked_[id];
    asked.rank = pipeline.tail(id).identity().rank;
    asked.wanted = true;
  }
}

// 0 = nobody else, or there is no need to.
uint32_t LineSampler::other_thread(Asked& asked, const RankTail& tail, uint64_t now_ns) {
  const bool waits = static_cast<double>(asked.without_gil) >= kWaitsForGil * static_cast<double>(asked.met);
  if (asked.met < kFewest || !waits || asked.questions % 2 == 0) return 0;
  const uint32_t training = training_thread(tail);
  auto now = ticks_of_namesakes(tail.identity().pid, training);
  uint32_t busiest = 0;
  const double seconds = static_cast<double>(now_ns - std::exchange(asked.ticks_ns, now_ns)) * 1e-9;
  auto most = static_cast<uint64_t>(kBusy * seconds * static_cast<double>(::sysconf(_SC_CLK_TCK)));
  for (const auto& [thread, ticks] : now) {
    const auto before = asked.ticks.find(thread);
    const uint64_t used = before == asked.ticks.end() ? 0 : ticks - std::min(ticks, before->second);
    if (thread == training || asked.no_python.contains(thread) || used <= most) continue;
    busiest = thread, most = used;
  }
  asked.ticks = std::move(now);
  return busiest;
}

void LineSampler::take(Asked& asked, Pipeline::TailId id, Pipeline& pipeline, const RankTail& tail) {
  const auto reading = tail.stack();
  if (!reading) return;
  const bool ours = reading->request == asked.request;
  // Somebody else's answer that is newer has taken its place.
  if (ours || reading->time_ns > asked.asked_ns) asked.open = false;
  if (!ours) return;
  ++asked.answers;
  Waiting answer{.at_ns = static_cast<int64_t>(reading->time_ns), .pc = reading->pc};
  answer.sample.holds_gil = (reading->flags & blackbox::kStackHoldsGil) != 0;
  answer.sample.take_frames(frames_of(*reading));
  if (asked.beside != 0) {
    if (reading->flags & blackbox::kStackNoPython) {
      asked.no_python.insert(asked.beside);
    } else {
      answer.sample.beside = true;
      pipeline.note_code(id, std::move(answer.sample));
    }
    return;
  }
  if (asked.waiting.size() >= kMostWaiting) asked.waiting.erase(asked.waiting.begin());
  asked.waiting.push_back(std::move(answer));
}

void LineSampler::settle(Asked& asked, Pipeline::TailId id, Pipeline& pipeline) {
  const RankTail& tail = *pipeline.ring(id);
  std::erase_if(asked.waiting, [&](Waiting& answer) {
    if (!tail.phases().passed(answer.at_ns)) return false;
    const auto stay = tail.phases().stay_at(answer.at_ns);
    if (!stay) return true;
    answer.sample.phase = stay->in.phase;
    answer.sample.stalled = stay->in.stalled;
    answer.sample.stay_ms = static_cast<double>(stay->end_ns - stay->begin_ns) * 1e-6;
    answer.sample.module = module_at(tail.identity().pid, answer.pc);
    answer.sample.in_interpreter = is_interpreter(answer.sample.module);
    ++asked.met;
    asked.without_gil += answer.sample.without_gil();
    pipeline.note_code(id, std::move(answer.sample));
    return true;
  });
}

void LineSampler::ask(Asked& asked, const RankTail& tail, uint64_t now_ns) {
  if (now_ns < asked.next_ns || asked.open) return;  // a question that waits is enough
  // Moments that nobody in the program can keep step with.
  std::uniform_int_distribution<uint64_t> pause(kShortestNs, kLongestNs);
  asked.next_ns = now_ns + pause(random_);
  const uint64_t began_ns = tail.identity().process_start_ns;
  const double allowed_ns = now_ns > began_ns ? kMostOfTime * static_cast<double>(now_ns - began_ns) : 0;
  if (static_cast<double>(asked.questions + 1) * static_cast<double>(kCostNs) > allowed_ns) return;
  asked.asked_ns = now_ns;
  asked.request = static_cast<uint16_t>(kLineRequests | next_request_++);
  asked.beside = other_thread(asked, tail, now_ns);
  asked.open = ask_for_stack(tail, asked.request, asked.beside).empty();
  asked.deaf = !asked.open;
  asked.questions += asked.open;
}

void LineSampler::look(Pipeline& pipeline, uint64_t now_ns, bool quiet, const std::set<TailId>& also) {
  if (!on_) return;
  quiet_ = quiet;
  if (now_ns >= choose_ns_) choose(pipeline, now_ns, also);
  for (auto& [id, asked] : asked_) {
    if (!pipeline.has(id)) {
      asked = {.rank = asked.rank, .questions = asked.questions, .answers = asked.answers};
      continue;
    }
    if (RemoteRank* elsewhere = pipeline.remote(id)) {
      asked.elsewhere = true;
      asked.questions = asked.answers = elsewhere->lines_told();
      elsewhere->want_lines(asked.wanted && !quiet);
      continue;
    }
    RankTail& tail = *pipeline.ring(id);
    if (asked.open) take(asked, id, pipeline, tail);
    settle(asked, id, pipeline);
    const bool gone = tail.ended() || tail.leaving();
    if (gone) asked.wanted = false;
    const bool needed = !gone && (asked.wanted || asked.open || !asked.waiting.empty());
    tail.watch_phases(needed);
    if (!needed) continue;
    const int64_t oldest_ns =
        asked.waiting.empty() ? static_cast<int64_t>(now_ns - kShortestNs) : asked.waiting[0].at_ns;
    tail.forget_phases_before(std::min(oldest_ns, static_cast<int64_t>(now_ns - kShortestNs)));
    if (asked.wanted && !quiet) ask(asked, tail, now_ns);
  }
}

int LineSampler::wait_ms(uint64_t now_ns, int most_ms) const {
  if (quiet_) return most_ms;
  uint64_t due_ns = now_ns + static_cast<uint64_t>(most_ms) * 1'000'000;
  for (const auto& [id, asked] : asked_)
    if (asked.wanted && !asked.open && !asked.deaf && !asked.elsewhere)
      due_ns = std::min(due_ns, std::max(asked.next_ns, now_ns));
  return std::max(1, static_cast<int>((due_ns - now_ns) / 1'000'000));
}

std::string LineSampler::account() const {
  std::string text;
  for (const auto& [id, asked] : asked_) {
    if (asked.questions == 0) continue;
    text += formatted("{}rank {}: {} questions, {} answers", text.empty() ? "" : ", ", asked.rank, asked.questions,
                      asked.answers);
  }
  return text.empty() ? "nobody was asked" : text;
}

}  // namespace stepscope
