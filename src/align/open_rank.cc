#include "align/open_rank.h"

#include <algorithm>
#include <utility>

#include "align/event_rows.h"

namespace stepscope {

namespace {

constexpr int64_t kTagFloorNs = 1'000'000;  // a millisecond of compile, save or validation tags a step
constexpr std::pair<Category, StepTag> kTagged[] = {{Category::kCompile, kTagCompile},
                                                    {Category::kCheckpoint, kTagCheckpoint},
                                                    {Category::kValidation, kTagValidation},
                                                    {Category::kEpochStart, kTagEpochStart}};

}  // namespace

bool OpenRank::tail_stalls() {
  const OpenSpan* backward = stack.innermost(Kind::kBackward);
  if (!backward) return false;
  return backward->collectives > 0 || (life.world_size > 1 && !sees_issues);
}

Category OpenRank::gap() const {
  if (evaluating) return Category::kValidation;
  return loss_gap ? Category::kForward : Category::kUnattributed;
}

Category OpenRank::phase() {
  if (finished) return life.open_phase;
  const Now now = stack.now(gap(), tail_stalls());
  return now.stall ? now.phase : now.category;
}

bool OpenRank::stalled() { return !finished && stack.now(gap(), tail_stalls()).stall; }

// Which collective the thread is blocked on. Without sequence numbers: the count of its waits, equal on all ranks.
Stall OpenRank::stall_from(int64_t begin_ns, Category phase) {
  Stall stall{0, 0, begin_ns, 0, phase};
  if (const OpenSpan* wait = stack.innermost(Kind::kWait)) {
    stall.group = wait->id;
    stall.sequence = wait->sequence;
    stall.sync_point = wait->sync_point;
    return stall;
  }
  const OpenSpan* backward = stack.innermost(Kind::kBackward);
  stall.group = backward && backward->collectives ? backward->last_group : 0;
  stall.sequence = backward && backward->collectives ? backward->last_sequence : backward_tails;
  return stall;
}

void OpenRank::charge(int64_t t) {
  if (last_ns == 0) last_ns = t;
  const int64_t ns = t - last_ns;
  if (ns <= 0) return;
  last_ns = t;
  if (!started) {
    life.startup[index(Category::kStartup)] += ns;
    return;
  }
  const Now now = stack.now(gap(), tail_stalls());
  device.lane().host_span(t - ns, t, now.stall ? now.phase : now.category, now.stall);
  if (!now.stall) {
    parts.add_own(now.category, ns);
    if (now.category == Category::kUnattributed) loaders.passed(ns);
    return;
  }
  if (!parts.stalled()) parts.begin_stall(stall_from(t - ns, now.phase));
  parts.lengthen_stall(ns);
}

void OpenRank::met(const StartupMeeting& meeting) {
  if (life.startup_meetings.size() < RankLife::kMaxStartupMeetings) life.startup_meetings.push_back(meeting);
}

void OpenRank::start(int64_t t) {
  if (started) return;
  charge(t);
  started = true;
  parts.begin(t);
  life.first_step_ns = t;
}

void OpenRank::drop_unused_batch(int64_t t) {
  if (!started || worked || step_depth > 0 || !loaders.newest()) return;
  const int64_t ns = parts.begin_again(t);
  loaders.forget_batch();
  life.startup[index(Category::kStartup)] += ns;
  life.dropped_ns += ns;
  ++life.dropped_batches;
  life.first_step_ns = t;
  last_batch = 0;
}

void OpenRank::apply(StepRule::Verdict verdict, int64_t t) {
  parts.apply(verdict, t);
  close_steps();
}

void OpenRank::close_steps() {
  if (parts.closed().empty()) return;
  for (RankStep& step : parts.closed()) {
    step.step = life.steps++;
    modes.step_ended();
    values.settle(step);
    for (const auto& [category, tag] : kTagged)
      if (step.own[index(category)] > kTagFloorNs) step.tags |= tag;
    life.last_step_ns = step.end_ns;
    device.add(std::move(step), last_ns);
  }
  parts.closed().clear();
}

void OpenRank::note_number(ScalarOf what, double value, int64_t host_ns) {
  if (StepFacts* open = host_ns == 0 ? &parts.facts() : parts.facts_at(host_ns))
    return values.computed(what, value, *open);
  RankStep* step = device.waiting_at(host_ns);
  if (!step) return values.computed(what, value, parts.facts());
  values.computed(what, value, *step);
  values.settle(*step);
}

// Another thread is followed: its records so far come first.
void OpenRank::change_thread() {
  forget_spans();
  loss_gap = evaluating = false;
  for (const Event& e : training.take_records()) handle(e, true);
}

void OpenRank::forget_spans() {
  stack.clear();
  step_depth = 0;
}

void OpenRank::say_threads() {
  const uint64_t steps = training.steps_not_followed();
  if (steps == 0) return;
  life.unavailable.push_back("steps of other threads: " + std::to_string(steps) + " steps of " +
                             std::to_string(training.at_the_same_time()) +
                             " other threads, which trained at the same time, are not in the figures");
}

void OpenRank::training_work() {
  worked = true;
  evaluating = false;
  loaders.training_work(life.training_loaders);
  values.begin_work(parts.facts(), loaders.epoch());
}

void OpenRank::evaluation_work() {
  worked = true;
  evaluating = true;
  const LoaderRoles::Wrongly wrongly = loaders.evaluation_work();
  StepAccumulator& open = parts.open();
  open.move_own(Category::kInputWait, Category::kValidation, wrongly.fetch_ns);
  open.move_own(Category::kEpochStart, Category::kValidation, wrongly.epoch_ns);
  open.move_own(Category::kUnattributed, Category::kValidation, wrongly.gap_ns);
  open.facts().counted_samples -= wrongly.samples;
  open.facts().counted_tokens -= wrongly.tokens;
}

void OpenRank::count_batch(double samples, double tokens) {
  if (!loaders.counts(samples, tokens, evaluating)) return;
  parts.facts().counted_samples += samples;
  parts.facts().counted_tokens += tokens;
}

void OpenRank::push(const Event& e) {
  if (finished) return;
  if (last_ns == 0 && life.process_start_ns > 0) last_ns = life.process_start_ns;
  parts.count_record();
  ++life.records;
  const bool main = training.follows(e, !stack.inside_step());
  if (training.take_changed()) change_thread();
  handle(e, main);
}

void OpenRank::handle(const Event& e, bool main) {
  const EventRow& row = event_row(kind_of(e.kind));
  const Edge edge = edge_of(e.kind);
  // Records of several threads are in order of claim, not of time: never go back.
  const int64_t t = std::max(static_cast<int64_t>(e.time_ns), last_ns);
  const bool tells =
      main || row.of == EventRow::Of::kProcess || (row.of == EventRow::Of::kStep && !training.is_other(e.thread));
  if (row.of == EventRow::Of::kAside) return row.tell(*this, e, t);
  if (main || (edge == Edge::kMark && row.of == EventRow::Of::kStep && tells)) charge(t);
  if (edge == Edge::kMark) {
    if (tells && row.tell) row.tell(*this, e, t);
    return;
  }
  if (!main || !row.spans) return;
  if (edge == Edge::kBegin) row.open(*this, e, t);
  if (edge == Edge::kEnd) row.close(*this, e, t);
}

void OpenRank::finish(int64_t end_ns) {
  if (finished) return;
  if (training.last_call(!stack.inside_step()) && training.take_changed()) change_thread();
  say_threads();
  const int64_t t = std::max(end_ns, last_ns);
  const Now now = stack.now(gap(), tail_stalls());
  life.open_phase = phase();
  life.open_detail = now.stall ? "waiting for other ranks" : "";
  charge(t);
  parts.finish();
  close_steps();
  device.release(last_ns, true);
  finished = true;
  life.end_ns = t;
  if (started) {
    const int64_t from = life.last_step_ns ? life.last_step_ns : life.first_step_ns;
    life.teardown[index(Category::kTeardown)] = std::max<int64_t>(0, t - from);
  }
}

}  // namespace stepscope
