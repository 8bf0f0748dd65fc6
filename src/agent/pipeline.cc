#include "agent/pipeline.h"

#include <algorithm>
#include <set>
#include <utility>

#include "blackbox/event_kind.h"

namespace stepscope {
namespace {

constexpr size_t kMaxNotes = 64;

bool is_version_fact(std::string_view key) {
  constexpr std::string_view known[] = {"python", "torch", "cuda", "nccl", "driver", "hip", "numpy", "lightning",
                                        "transformers", "accelerate", "deepspeed", "device"};
  return std::find(std::begin(known), std::end(known), key) != std::end(known);
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (text.empty() || list.size() >= kMaxNotes) return;
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

}  // namespace

Pipeline::Pipeline(EngineOptions options) : options_(std::move(options)), engine_(options_) {}

Pipeline::TailId Pipeline::add(RankTail tail) {
  const TailId id = next_id_++;
  tails_.emplace(id, std::make_unique<RankTail>(std::move(tail)));
  return id;
}

std::vector<Pipeline::TailId> Pipeline::tails() const {
  std::vector<TailId> ids;
  for (const auto& [id, tail] : tails_) ids.push_back(id);
  return ids;
}

bool Pipeline::counts_as_rank(TailId id) const {
  const auto found = generation_of_.find(id);
  return found != generation_of_.end() && found->second >= 0 && found->second == generation_;
}

void Pipeline::drop(TailId id) {
  if (counts_as_rank(id)) return;
  tails_.erase(id);
  generation_of_.erase(id);
}

void Pipeline::qualify(TailId id, uint64_t now_ns) {
  RankTail& tail = *tails_.at(id);
  if (generation_of_.contains(id) || !tail.is_rank()) return;
  const int attempt = std::max(0, tail.identity().attempt), rank = tail.identity().rank;
  if (generation_ < 0 || attempt > attempt_) begin_generation(attempt, now_ns);
  if (attempt < attempt_) {
    generation_of_[id] = -1;  // a straggler of an attempt that is history
    return;
  }
  if (const auto same = now_.ranks.find(rank); same != now_.ranks.end()) {
    const RankTail& other = *tails_.at(same->second);
    // A main process that called init() and leaves the training to the ranks it spawns.
    const bool only_said_so = other.identity().evidence == blackbox::kEvidenceInit && other.steps() == 0;
    if (!other.ended() && only_said_so && tail.identity().evidence != blackbox::kEvidenceInit) {
      generation_of_[same->second] = -1;
    } else if (!other.ended()) {
      generation_of_[id] = -1;
      note("two processes are rank " + std::to_string(rank) + " at once (pids " + std::to_string(other.identity().pid) +
           " and " + std::to_string(tail.identity().pid) + "); the first one is followed");
      return;
    } else {
      begin_generation(attempt, now_ns);  // the launch command started its ranks again
    }
  }
  generation_of_[id] = generation_;
  now_.ranks[rank] = id;
  if (tail.ended()) record_death(id);
}

void Pipeline::begin_generation(int attempt, uint64_t now_ns) {
  if (generation_ >= 0) {
    close_generation(now_ns);
    engine_.begin_attempt();
    steps_before_ = engine_.closed_steps();
  }
  now_ = {};
  attempt_ = attempt;
  ++generation_;
  if (on_attempt_) on_attempt_(generation_);
}

void Pipeline::close_generation(uint64_t now_ns) {
  for (const auto& [rank, id] : now_.ranks) end_tail(id, now_ns, std::nullopt);
  feed_ready();
  keep_lost_ranks();
  for (const auto& [rank, id] : now_.ranks) {
    merge_facts(*tails_.at(id));
    earlier_totals_ += tails_.at(id)->totals();
    closed_rings_.push_back(tails_.at(id)->path());
    tails_.erase(id);
  }
  earlier_deaths_.insert(earlier_deaths_.end(), now_.deaths.begin(), now_.deaths.end());
}

// The engine forgets the lives of an attempt when the next one begins; who was lost in it is asked for now, of an engine
// that knows nothing but these lives.
void Pipeline::keep_lost_ranks() {
  Engine judge(options_);
  if (interrupted_ns_) judge.set_interrupted(interrupted_ns_);
  for (const auto& [rank, id] : now_.ranks) judge.set_life(rank, tails_.at(id)->life());
  judge.finish();
  for (Finding finding : judge.snapshot().findings) {
    if (!stepscope::has(finding.kind.id(), kOutlivesAttempt)) continue;
    for (int64_t* step : {&finding.first_step, &finding.last_step, &finding.detected_step}) {
      if (*step >= 0) *step += steps_before_;
    }
    finding.title += " (attempt " + std::to_string(generation_ + 1) + ")";
    engine_.add_external(std::move(finding));
  }
}

void Pipeline::record_death(TailId id) {
  const RankLife life = tails_.at(id)->life();
  const bool by_code = !life.clean_exit && life.exit_code != 0;  // -1 = unknown, and it did not say goodbye
  if (life.exit_signal == 0 && life.exception.empty() && !by_code) return;
  const auto same = std::find_if(now_.deaths.begin(), now_.deaths.end(),
                                 [&](const UncleanDeath& death) { return death.rank == life.rank; });
  UncleanDeath death{life.rank, life.exit_signal, life.exception, life.failed_ns(),
                     life.teardown_begun && life.exception.empty()};
  if (life.ended_by_stop(interrupted_ns_)) return;
  if (same != now_.deaths.end()) *same = death;
  else now_.deaths.push_back(death);
}

void Pipeline::sample_completions(uint64_t now_ns) {
  if (now_.ranks.size() < 2 || told_groups_.empty()) return;
  uint64_t ends = 0;
  for (const auto& [rank, id] : now_.ranks) ends = std::max(ends, tail(id).optimizer_ends());
  const auto until = stamps_.ask(ends, engine_.suspects_communication(), now_ns);
  if (!until) return;
  for (const auto& [rank, id] : now_.ranks)
    if (RankTail& tail = *tails_.at(id); !tail.ended()) tail.ask_stamps(*until);
}

void Pipeline::end_tail(TailId id, uint64_t now_ns, std::optional<int> wait_status) {
  const auto found = tails_.find(id);
  if (found == tails_.end() || found->second->ended()) return;
  found->second->end(now_ns, wait_status);
  qualify(id, now_ns);  // evidence may have come with its last records
  if (counts_as_rank(id)) record_death(id);
}

void Pipeline::set_exit_status(int pid, int wait_status) {
  for (const auto& [id, tail] : tails_) {
    if (tail->identity().pid != pid) continue;
    tail->set_exit_status(wait_status);
    if (counts_as_rank(id) && tail->ended()) record_death(id);
  }
}

void Pipeline::interrupted(int64_t at_ns) {
  interrupted_ns_ = interrupted_ns_ ? std::min(interrupted_ns_, at_ns) : at_ns;
  engine_.set_interrupted(interrupted_ns_);
  std::erase_if(now_.deaths, [&](const UncleanDeath& death) {
    return tails_.at(now_.ranks.at(death.rank))->life().ended_by_stop(interrupted_ns_);
  });
}

void Pipeline::resume_tail(TailId id, const StepMark& mark) { tails_.at(id)->resume(mark); }

double Pipeline::pump(uint64_t now_ns) {
  double fullest = 0;
  for (const auto& [id, tail] : tails_) {
    const size_t count = tail->drain(now_ns);
    fullest = std::max(fullest, static_cast<double>(count) / static_cast<double>(tail->capacity()));
  }
  for (const TailId id : tails()) {
    if (tails_.contains(id)) qualify(id, now_ns);
  }
  feed_ready();
  return fullest;
}

void Pipeline::feed_ready() {
  std::multimap<uint32_t, std::pair<int, RankStep>> steps;  // in step order, of one step in rank order
  for (const auto& [rank, id] : now_.ranks) {
    RankTail& tail = *tails_.at(id);
    for (const auto& [group, members] : tail.builder().groups()) {
      size_t& told = told_groups_[group];
      if (told == members.ranks.size() + 1) continue;
      told = members.ranks.size() + 1;
      engine_.set_group(group, members.description, members.ranks);
    }
    for (RankStep& step : tail.take_steps()) {
      steps.emplace(step.step, std::pair{rank, std::move(step)});
    }
  }
  if (steps.empty()) return;
  tell_lives();
  for (auto& [number, entry] : steps) engine_.feed(entry.first, std::move(entry.second));
  engine_.evaluate();
}

void Pipeline::tell_lives() {
  for (const auto& [rank, id] : now_.ranks) {
    RankLife life = tails_.at(id)->life();
    life.stopped = interrupted_ns_ > 0 && (!life.ended || life.ended_by_stop(interrupted_ns_));
    engine_.set_life(rank, life);
  }
}

void Pipeline::finish(uint64_t now_ns) {
  if (finished_) return;
  finished_ = true;
  for (const TailId id : tails()) end_tail(id, now_ns, std::nullopt);
  feed_ready();
  tell_lives();
  engine_.finish();
}

void Pipeline::merge_facts(const RankTail& tail) {
  for (const auto& [key, text] : tail.builder().names()) {
    if (key.first != static_cast<uint16_t>(NameKind::kFact)) continue;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || !is_version_fact(std::string_view(text).substr(0, equals))) continue;
    versions_[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const std::string& text : tail.life().unavailable) unavailable(text);
  const std::string who = "rank " + std::to_string(tail.identity().rank);
  if (tail.totals().damaged > 0) note(who + ": its black box was scribbled over or cut short; its losses are a lower bound");
  if (!tail.numbers_certain()) note(who + ": steps were lost while the observer was away; step numbers may be too low");
}

Snapshot Pipeline::snapshot() {
  Snapshot snapshot = engine_.snapshot();
  blackbox::ReadStats totals = earlier_totals_;
  std::set<std::pair<int, std::string>> nodes;
  int world = snapshot.run.world_size;
  for (const auto& [rank, id] : now_.ranks) {
    const RankTail& tail = *tails_.at(id);
    merge_facts(tail);
    totals += tail.totals();
    nodes.emplace(tail.identity().node_rank, tail.identity().hostname);
    world = std::max({world, tail.identity().world_size, rank + 1});
  }
  snapshot.run.world_size = world;
  snapshot.run.nodes = static_cast<int>(nodes.size());
  snapshot.run.attempts = attempts();
  for (const auto& [key, text] : versions_) snapshot.run.versions[key] = text;
  snapshot.observer.records = totals.read;
  snapshot.observer.lost = totals.lost;
  snapshot.observer.torn = totals.torn;
  for (const std::string& text : unavailable_) add_once(snapshot.observer.unavailable, text);
  for (const std::string& text : notes_) add_once(snapshot.observer.notes, text);
  return snapshot;
}

const UncleanDeath* Pipeline::first_unclean_death(bool any) const {
  const UncleanDeath* first = nullptr;
  auto look = [&](const std::vector<UncleanDeath>& deaths) {
    for (const UncleanDeath& death : deaths) {
      if (!first || death.time_ns < first->time_ns) first = &death;
    }
  };
  if (any) look(earlier_deaths_);
  look(now_.deaths);
  return first;
}

std::vector<std::string> Pipeline::take_closed_rings() { return std::exchange(closed_rings_, {}); }

void Pipeline::note(const std::string& text) { add_once(notes_, text); }
void Pipeline::unavailable(const std::string& text) { add_once(unavailable_, text); }

}  // namespace stepscope
