#include "agent/pipeline.h"

#include <algorithm>
#include <tuple>
#include <set>
#include <utility>

#include "agent/node_frame.h"
#include "blackbox/event_kind.h"

namespace stepscope {
namespace {

constexpr size_t kMaxNotes = 64;
constexpr uint64_t kTellNs = 1'000'000'000;
constexpr size_t kMaxWaitingSteps = 256;  // of a process that is not admitted or not placed yet

bool is_version_fact(std::string_view key) {
  constexpr std::string_view known[] = {"python", "torch",     "cuda",         "nccl",       "driver",    "hip",
                                        "numpy",  "lightning", "transformers", "accelerate", "deepspeed", "device"};
  return std::find(std::begin(known), std::end(known), key) != std::end(known);
}

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (text.empty() || list.size() >= kMaxNotes) return;
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

}  // namespace

Pipeline::Pipeline(EngineOptions options) : engine_(std::move(options)) {}

Pipeline::TailId Pipeline::add(RankTail tail) { return add(std::make_unique<RankTail>(std::move(tail))); }

Pipeline::TailId Pipeline::add(std::unique_ptr<RankSource> source) {
  const TailId id = next_id_++;
  if (RankTail* ring = source->local()) ring->copy_steps(copies_steps_);
  tails_.emplace(id, std::move(source));
  return id;
}

void Pipeline::copy_steps(bool on) {
  copies_steps_ = on;
  for (auto& [id, tail] : tails_)
    if (RankTail* ring = tail->local()) ring->copy_steps(on);
}

std::vector<Pipeline::TailId> Pipeline::tails() const {
  std::vector<TailId> ids;
  for (const auto& [id, tail] : tails_) ids.push_back(id);
  return ids;
}

bool Pipeline::counts_as_rank(TailId id) const { return now_.ranks.holds(id); }

void Pipeline::drop(TailId id) {
  const auto found = tails_.find(id);
  if (found == tails_.end() || counts_as_rank(id)) return;
  if (on_away_) on_away_(id, *found->second);
  tails_.erase(found);
  refused_.erase(id);
}

Claim Pipeline::claim_of(const RankSource& tail) const {
  const blackbox::Identity& who = tail.identity();
  Claim claim;
  claim.rank = who.rank;
  claim.world_size = std::max(0, who.world_size);
  claim.restarts = std::max(0, who.attempt);
  claim.opened_ns = static_cast<int64_t>(who.anchor_monotonic_ns ? who.anchor_monotonic_ns : who.process_start_ns);
  claim.active_ns = tail.active_ns();
  claim.joined_ns = tail.joined_ns();
  claim.left = tail.ended() || (who.life & blackbox::kLifeClosed) != 0;
  claim.only_said_so = who.evidence == blackbox::kEvidenceInit && tail.steps() == 0 && !claim.left;
  return claim;
}

Members Pipeline::members() const {
  Members members;
  for (const auto& [rank, participant] : now_.ranks) members.add(claim_of(*tails_.at(participant.tail)));
  return members;
}

bool Pipeline::may_qualify(TailId id) const {
  const RankSource& tail = *tails_.at(id);
  if (tail.is_rank()) return true;
  if (!tail.is_starter() || (tail.local() && launchers_.contains(tail.identity().pid))) return false;
  return tail.failed_to_start() || failed_restarts_ == std::max(0, tail.identity().attempt);
}

bool Pipeline::is_starting(TailId id) const {
  const RankSource& tail = *tails_.at(id);
  if (!tail.is_starter() || tail.ended() || refused_.contains(id) || launchers_.contains(tail.identity().pid))
    return false;
  if (now_.number >= 0 && std::max(0, tail.identity().attempt) != now_.restarts) return false;
  return !now_.ranks.contains(tail.identity().rank);
}

// Who holds that rank, or belongs to a later start, is not touched by it.
void Pipeline::start_failed(const RankLife& life, uint64_t now_ns) {
  if (launchers_.contains(life.pid)) return;
  const int restarts = std::max(0, life.attempt);
  if (now_.number >= 0 && (restarts < now_.restarts || (restarts == now_.restarts && now_.ranks.contains(life.rank))))
    return;
  if (now_.number < 0 || restarts > now_.restarts)
    begin_attempt({.rank = life.rank, .world_size = life.world_size, .restarts = restarts}, now_ns);
  failed_restarts_ = restarts;
  failed_starts_[life.rank] = life;
  now_.deaths.push_back({life.rank, life.exit_signal, life.exception, life.end_ns, false});
  qualify_all(now_ns);
  tell_lives();
}

void Pipeline::qualify(TailId id, Members& members, uint64_t now_ns) {
  RankSource& tail = *tails_.at(id);
  if (counts_as_rank(id) || refused_.contains(id) || !may_qualify(id)) return;
  const Claim claim = claim_of(tail);
  const auto held = now_.ranks.find(claim.rank);
  const std::optional<Claim> holder =
      held == now_.ranks.end() ? std::nullopt : std::optional(claim_of(*tails_.at(held->second.tail)));
  const Place found = place_of(claim, now_, members, holder ? &*holder : nullptr);
  if (found == Place::kHistory || (found == Place::kWaits && tail.ended())) return refuse(id);
  if (found != Place::kWaits) return admit(id, found, members, now_ns);
  if (tail.waiting_steps().size() > kMaxWaitingSteps) tail.take_steps();
  if (const auto holder = now_.ranks.find(tail.identity().rank); holder != now_.ranks.end() && tail.steps() > 0) {
    note("two processes are rank " + std::to_string(holder->first) + " at once (pids " +
         std::to_string(this->tail(holder->second.tail).identity().pid) + " and " +
         std::to_string(tail.identity().pid) + "); the first one is followed");
  }
}

// Oldest first: a successor is told by what was there before it.
void Pipeline::qualify_all(uint64_t now_ns) {
  std::vector<std::pair<int64_t, TailId>> waiting;
  for (const auto& [id, tail] : tails_) {
    if (may_qualify(id) && !refused_.contains(id) && !counts_as_rank(id))
      waiting.emplace_back(claim_of(*tail).opened_ns, id);
  }
  if (waiting.empty()) return;
  std::sort(waiting.begin(), waiting.end());
  Members present = members();
  for (const auto& [opened_ns, id] : waiting) {
    if (tails_.contains(id)) qualify(id, present, now_ns);
  }
}

// Who only joins is added to `members`; where more changed they are looked at anew.
void Pipeline::admit(TailId id, Place found, Members& members, uint64_t now_ns) {
  RankSource& tail = *tails_.at(id);
  const Claim claim = claim_of(tail);
  uint32_t not_before = 0;
  if (found == Place::kBegins) {
    begin_attempt(claim, now_ns);
  } else if (found == Place::kTakesOver) {
    refused_.insert(now_.ranks.at(claim.rank).tail);
  } else if (found == Place::kReplaces) {
    const TailId before = now_.ranks.at(claim.rank).tail;
    end_tail(before, now_ns, std::nullopt);
    feed_ready();
    const RankSource& old = *tails_.at(before);
    note("rank " + std::to_string(claim.rank) + " was replaced while others trained on: process " +
         std::to_string(old.identity().pid) + ", then " + std::to_string(tail.identity().pid));
    not_before = life_of(claim.rank, now_.ranks.at(claim.rank)).steps;
    vacate(claim.rank);
  }
  // What a process did while others held its rank is not told twice.
  const bool beside =
      std::any_of(earlier_ends_ns_.begin(), earlier_ends_ns_.end(), [&](int64_t at) { return at > claim.opened_ns; });
  if (found == Place::kBegins && beside) tail.take_steps();
  // Whose process group was whole before this one came trains in step with others: the newcomer joins them in theirs.
  if (found != Place::kJoins) members = this->members();
  const bool late = members.first_joined_ns < claim.opened_ns;
  Participant participant{.tail = id,
                          .from = tail.next_step(),
                          .at = tail.counted_before(),
                          .not_before = not_before,
                          .world_size = claim.world_size};
  participant.late = found == Place::kReplaces || late;
  if (participant.late) participant.at.reset();
  if (now_.world_size == 0) now_.world_size = claim.world_size;
  now_.ranks.put(claim.rank, participant);
  if (found == Place::kTakesOver)
    members = this->members();
  else
    members.add(claim);
  if (tail.failed_to_start() && !failed_restarts_) failed_restarts_ = claim.restarts;
  if (tail.ended()) record_death(id);
}

// A process that lives on may be given another rank or world: by elastic frameworks that keep it, or since it knew
// neither before its process group was made.
void Pipeline::follow_renumbered(uint64_t now_ns) {
  std::vector<int> changed;
  for (const auto& [rank, participant] : now_.ranks) {
    const blackbox::Identity& who = tails_.at(participant.tail)->identity();
    const bool other_world =
        who.world_size > 0 && participant.world_size > 0 && who.world_size != participant.world_size;
    if (who.rank >= 0 && (who.rank != rank || other_world)) changed.push_back(rank);
  }
  if (changed.empty()) return;
  feed_ready();
  const bool trained = std::any_of(now_.ranks.begin(), now_.ranks.end(), [&](const auto& entry) {
    return tails_.at(entry.second.tail)->steps() > entry.second.from;
  });
  std::vector<TailId> moved;
  for (const int rank : changed) moved.push_back(now_.ranks.at(rank).tail);
  for (const int rank : changed) now_.ranks.erase(rank);
  const RankSource& first = *tails_.at(moved.front());
  if (trained)
    begin_attempt(claim_of(first), now_ns);
  else
    now_.world_size = claim_of(first).world_size;
  // Its open step belongs to what follows.
  Members present = members();
  for (const TailId id : moved) {
    if (now_.ranks.empty())
      admit(id, Place::kJoins, present, now_ns);
    else
      qualify(id, present, now_ns);
  }
}

void Pipeline::begin_attempt(const Claim& claim, uint64_t now_ns) {
  Attempt next{.number = now_.number + 1, .restarts = claim.restarts, .world_size = claim.world_size};
  if (now_.number >= 0) {
    const bool renumbered = claim.restarts == now_.restarts && claim.world_size != now_.world_size;
    close_attempt(renumbered, now_ns);
    engine_.begin_attempt(claim.world_size);
    next.first_step = engine_.closed_steps();
  }
  now_ = std::move(next);
  clock_ = {};
  told_groups_.clear();
  if (on_attempt_) on_attempt_(now_.number);
}

// Only those that are gone are ended; who lives on waits until it fits again.
void Pipeline::close_attempt(bool renumbered, uint64_t now_ns) {
  std::vector<RankLife> lives;
  earlier_ends_ns_.clear();
  for (const auto& [rank, participant] : now_.ranks) {
    RankSource& tail = *tails_.at(participant.tail);
    earlier_ends_ns_.push_back(tail.active_ns());
    if (claim_of(tail).left) end_tail(participant.tail, now_ns, std::nullopt);
  }
  feed_ready();
  for (const auto& [rank, participant] : now_.ranks) {
    RankLife life = life_of(rank, participant);
    // The launcher stops all ranks to number them anew and counts no failure: an end without a word is no loss then.
    const bool without_a_word = life.exit_signal == 0 && life.exception.empty() && life.exit_code <= 0;
    if (renumbered && without_a_word) life.clean_exit = true;
    lives.push_back(life);
  }
  for (const auto& [rank, life] : std::exchange(failed_starts_, {})) lives.push_back(life);
  failed_restarts_.reset();
  engine_.part_with({.lives = lives, .remark = attempt_remark(now_.number), .first_step = now_.first_step});
  for (const auto& [rank, participant] : now_.ranks.take()) {
    if (tails_.at(participant.tail)->ended())
      put_away(participant.tail);
    else
      merge_facts(*tails_.at(participant.tail));
  }
  earlier_deaths_.insert(earlier_deaths_.end(), now_.deaths.begin(), now_.deaths.end());
}

void Pipeline::vacate(int rank) {
  const Participant participant = now_.ranks.at(rank);
  std::vector<RankLife> lives;
  for (const auto& [other, taken] : now_.ranks) lives.push_back(life_of(other, taken));
  std::erase_if(lives, [&](const RankLife& life) { return life.rank != rank && life.ended; });
  engine_.part_with({.lives = lives,
                     .remark = "; another process took its place",
                     .at_most = Severity::kWarn,
                     .first_step = now_.first_step});
  const auto others = std::stable_partition(now_.deaths.begin(), now_.deaths.end(),
                                            [&](const UncleanDeath& d) { return d.rank != rank; });
  earlier_deaths_.insert(earlier_deaths_.end(), others, now_.deaths.end());
  now_.deaths.erase(others, now_.deaths.end());
  now_.ranks.erase(rank);
  put_away(participant.tail);
}

void Pipeline::put_away(TailId id) {
  RankSource& tail = *tails_.at(id);
  merge_facts(tail);
  earlier_totals_ += tail.totals();
  if (on_away_) on_away_(id, tail);
  if (const RankTail* ring = tail.local()) closed_rings_.push_back(ring->path());
  tails_.erase(id);
}

void Pipeline::refuse(TailId id) {
  if (tails_.at(id)->ended())
    put_away(id);
  else
    refused_.insert(id);
}

RankLife Pipeline::life_of(int rank, const Participant& participant) const {
  RankLife life = tails_.at(participant.tail)->life();
  life.rank = rank;
  life.steps = life.steps - std::min(life.steps, participant.from) + participant.at.value_or(participant.not_before);
  return life;
}

void Pipeline::record_death(TailId id) {
  const RankLife life = tails_.at(id)->life();
  if (!life.ended) return;                                       // of a process elsewhere nobody has told the end
  const bool by_code = !life.clean_exit && life.exit_code != 0;  // -1 = unknown, and it did not say goodbye
  if (life.exit_signal == 0 && life.exception.empty() && !by_code) return;
  const auto same = std::find_if(now_.deaths.begin(), now_.deaths.end(),
                                 [&](const UncleanDeath& death) { return death.rank == life.rank; });
  UncleanDeath death{life.rank, life.exit_signal, life.exception, life.failed_ns(),
                     life.teardown_begun && life.exception.empty()};
  if (life.ended_by_stop(interrupted_ns_)) return;
  if (same != now_.deaths.end())
    *same = death;
  else
    now_.deaths.push_back(death);
}

void Pipeline::note_stopped(TailId id, int64_t at_ns) {
  engine_.note_stopped(tail(id).identity().rank, at_ns);
  if (RankTail* local = ring(id)) local->note_stopped(at_ns);
}

void Pipeline::note_code(TailId id, CodeSample sample) {
  if (on_code_) on_code_(id, sample);
  engine_.note_code(tail(id).identity().rank, std::move(sample));
}

void Pipeline::sample_completions(uint64_t now_ns) {
  if (now_.ranks.size() < 2 || told_groups_.empty()) return;
  uint64_t ends = 0;
  for (const auto& [rank, participant] : now_.ranks) ends = std::max(ends, tail(participant.tail).optimizer_ends());
  const auto until = stamps_.ask(ends, engine_.suspects_communication(), now_ns);
  if (!until) return;
  for (const auto& [rank, participant] : now_.ranks) {
    RankSource& tail = *tails_.at(participant.tail);
    // Its own count, where it came later than the others.
    const uint64_t behind = participant.late ? ends - tail.optimizer_ends() : 0;
    if (!tail.ended()) tail.ask_stamps(*until - behind);
  }
}

void Pipeline::end_tail(TailId id, uint64_t now_ns, std::optional<int> wait_status) {
  const auto found = tails_.find(id);
  if (found == tails_.end() || found->second->ended()) return;
  found->second->end(now_ns, wait_status);
  if (!counts_as_rank(id)) {  // evidence may have come with its last records
    Members present = members();
    qualify(id, present, now_ns);
  }
  if (counts_as_rank(id)) record_death(id);
}

void Pipeline::set_exit_status(int pid, int wait_status) {
  for (const auto& [id, tail] : tails_) {
    if (!tail->local() || tail->identity().pid != pid) continue;
    tail->set_exit_status(wait_status);
    if (counts_as_rank(id) && tail->ended()) record_death(id);
  }
}

void Pipeline::interrupted(int64_t at_ns) {
  interrupted_ns_ = interrupted_ns_ ? std::min(interrupted_ns_, at_ns) : at_ns;
  engine_.set_interrupted(interrupted_ns_);
  std::erase_if(now_.deaths, [&](const UncleanDeath& death) {
    if (!now_.ranks.contains(death.rank)) return death.time_ns >= interrupted_ns_;
    return tails_.at(now_.ranks.at(death.rank).tail)->life().ended_by_stop(interrupted_ns_);
  });
}

void Pipeline::set_oom_kill(TailId id, OomKill seen) {
  if (RankTail* tail = ring(id)) tail->set_oom_kill(seen);
}

void Pipeline::resume_tail(TailId id, const StepMark& mark) {
  if (RankTail* tail = ring(id)) tail->resume(mark);
}

double Pipeline::pump(uint64_t now_ns) {
  double fullest = 0;
  for (const auto& [id, tail] : tails_) fullest = std::max(fullest, tail->advance(now_ns));
  follow_renumbered(now_ns);
  qualify_all(now_ns);
  feed_ready();
  if (now_ns - told_ns_ >= kTellNs) {
    told_ns_ = now_ns;
    tell_lives();
    engine_.tick(static_cast<int64_t>(now_ns));
  }
  return fullest;
}

void Pipeline::feed_ready() {
  do {
    if (feed_placed()) engine_.evaluate();
  } while (place_newcomers());
}

bool Pipeline::has_other_nodes() const {
  size_t here = 0;
  int world = 0;
  for (const auto& [id, tail] : tails_) {
    if (!tail->is_rank()) continue;
    if (tail->remote()) return true;
    ++here;
    world = std::max(world, tail->identity().world_size);
  }
  return static_cast<size_t>(world) > here;
}

bool Pipeline::feed_placed() {
  const bool other_nodes = has_other_nodes();
  std::vector<RankStep> steps;
  std::vector<std::tuple<uint64_t, int, size_t>> order;  // by step, of one step by rank: where it lies
  std::vector<int> delivering;
  size_t waiting = 0;
  for (const auto& [rank, participant] : now_.ranks)
    if (participant.at) waiting += tails_.at(participant.tail)->waiting_steps().size();
  steps.reserve(waiting);
  for (const auto& [rank, participant] : now_.ranks) {
    RankSource& tail = *tails_.at(participant.tail);
    for (const auto& [group, members] : tail.groups()) {
      size_t& told = told_groups_[group];
      if (told == members.ranks.size() + 1) continue;
      told = members.ranks.size() + 1;
      engine_.set_group(group, members.description, members.ranks);
    }
    for (const auto& [communicator, size] : tail.communicators()) {
      if (tail.groups().contains(communicator) || !told_communicators_.insert(communicator).second) continue;
      engine_.set_group_size(communicator, size);
    }
    if (!participant.at) continue;
    if (tail.waiting_steps().empty()) continue;
    delivering.push_back(rank);
    for (RankStep& step : tail.take_steps()) {
      step.step = step.step - participant.from + *participant.at;
      if (other_nodes && tail.local()) sum_up_stalls(step);  // those from other nodes were
      order.emplace_back(step.step, rank, steps.size());
      steps.push_back(std::move(step));
    }
  }
  if (steps.empty()) return false;
  std::ranges::sort(order);
  for (const int rank : delivering) tell_life(rank, now_.ranks.at(rank), true);  // an end counts from the last step on
  for (const auto& [number, rank, at] : order) {
    clock_.note(number, steps[at].end_ns);
    engine_.feed(rank, std::move(steps[at]));
  }
  for (const int rank : delivering) tell_life(rank, now_.ranks.at(rank));
  for (auto& [rank, participant] : now_.ranks)
    if (!participant.told_end && tails_.at(participant.tail)->ended()) tell_life(rank, participant);
  return true;
}

// A rank that came later begins at the step in which the others were when its first step ended.
bool Pipeline::place_newcomers() {
  bool placed = false;
  for (auto& [rank, participant] : now_.ranks) {
    const RankSource& tail = *tails_.at(participant.tail);
    if (participant.at || tail.waiting_steps().empty()) continue;
    const bool alone = std::none_of(now_.ranks.begin(), now_.ranks.end(), [&](const auto& entry) {
      return entry.second.at && !tails_.at(entry.second.tail)->ended();
    });
    std::optional<uint64_t> at = clock_.step_at(tail.waiting_steps().front().end_ns);
    if (!at && (alone || finished_ || tail.waiting_steps().size() > kMaxWaitingSteps)) at = clock_.next();
    if (!at) continue;
    participant.at = std::max(*at, participant.not_before);
    placed = true;
  }
  return placed;
}

void Pipeline::tell_life(int rank, Participant& participant, bool as_alive) {
  RankLife life = life_of(rank, participant);
  life.stopped = interrupted_ns_ > 0 && (!life.ended || life.ended_by_stop(interrupted_ns_));
  if (as_alive) life.ended = false;
  participant.told_end = life.ended;
  engine_.set_life(rank, life);
}

void Pipeline::tell_lives() {
  for (auto& [rank, participant] : now_.ranks) tell_life(rank, participant);
  for (const auto& [rank, life] : failed_starts_) {
    if (now_.ranks.contains(rank)) continue;
    RankLife told = life;
    told.stopped = life.ended_by_stop(interrupted_ns_);
    engine_.set_life(rank, told);
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

void Pipeline::merge_facts(const RankSource& tail) {
  for (const auto& [key, text] : tail.names()) {
    if (key.first != static_cast<uint16_t>(NameKind::kFact)) continue;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || !is_version_fact(std::string_view(text).substr(0, equals))) continue;
    versions_[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const std::string& text : tail.life().unavailable) unavailable(text);
  const std::string who = "rank " + std::to_string(tail.identity().rank);
  if (tail.totals().damaged > 0)
    note(who + ": its black box was scribbled over or cut short; its losses are a lower bound");
  if (const std::string thread = tail.ended_thread(); !thread.empty())
    note(who + ": a thread of it ended by " + thread);
  if (!tail.numbers_certain()) note(who + ": steps were lost while the observer was away; step numbers may be too low");
}

RunContext Pipeline::context() {
  RunContext context;
  blackbox::ReadStats totals = earlier_totals_;
  std::set<std::pair<int, std::string>> nodes;
  for (const auto& [rank, participant] : now_.ranks) {
    const RankSource& tail = *tails_.at(participant.tail);
    merge_facts(tail);
    totals += tail.totals();
    nodes.emplace(tail.identity().node_rank, tail.identity().hostname);
    context.run.world_size = std::max({context.run.world_size, tail.identity().world_size, rank + 1});
  }
  for (const auto& [rank, life] : failed_starts_)
    context.run.world_size = std::max({context.run.world_size, life.world_size, rank + 1});
  context.run.nodes = static_cast<int>(nodes.size());
  context.run.attempts = attempts();
  context.run.versions = versions_;
  context.observer.records = totals.read;
  context.observer.lost = totals.lost;
  context.observer.torn = totals.torn;
  context.observer.unavailable = unavailable_;
  context.observer.notes = notes_;
  return context;
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
