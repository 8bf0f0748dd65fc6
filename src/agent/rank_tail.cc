#include "agent/rank_tail.h"

#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include "agent/lay_life.h"
#include "align/rank_end.h"

namespace stepscope {
namespace {
constexpr size_t kChunk = 4096;

Event to_event(const blackbox::Record& r) { return {r.time_ns, r.kind, r.flags, r.thread, r.a, r.b, r.c, r.d}; }

// A header that was scribbled over names other ranks and worlds: what never changes tells.
bool same_owner(const blackbox::Identity& before, const blackbox::Identity& now) {
  constexpr uint8_t kNotYet[16] = {};
  const bool same_run = std::memcmp(before.run_nonce, now.run_nonce, sizeof kNotYet) == 0 ||
                        std::memcmp(before.run_nonce, kNotYet, sizeof kNotYet) == 0;
  return same_run && before.pid == now.pid && before.pid_start_ticks == now.pid_start_ticks &&
         before.anchor_monotonic_ns == now.anchor_monotonic_ns;
}
}  // namespace

RankTail::RankTail(blackbox::RingReader reader) : reader_(std::move(reader)) {
  identity_ = reader_.identity();
  builder_.life().process_start_ns = static_cast<int64_t>(identity_.process_start_ns);
  builder_.life().world_size = std::max(0, identity_.world_size);
}

Result<RankTail> RankTail::open(const std::string& path) {
  auto reader = blackbox::RingReader::open(path);
  if (!reader) return std::unexpected(reader.error());
  return RankTail(std::move(*reader));
}

void RankTail::refresh_identity() {
  blackbox::Identity now = reader_.identity();
  if (!same_owner(identity_, now)) return;
  identity_ = std::move(now);
  builder_.life().world_size = std::max(0, identity_.world_size);
}

void RankTail::push(const std::vector<blackbox::Record>& records) {
  // A name is written before the first record that uses it, so names read after the records cover them all.
  names_.clear();
  reader_.read_names(names_);
  for (const blackbox::Name& name : names_) builder_.push_name(static_cast<uint16_t>(name.kind), name.id, name.text);
  for (const blackbox::Record& record : records) {
    const Event event = to_event(record);
    whereabouts_.push(event, whereabouts_.breaks_silence(event) ? builder_.phase() : Category::kUnattributed);
    builder_.push(event);
    if (phases_.open()) phases_.note(static_cast<int64_t>(record.time_ns), {builder_.phase(), builder_.stalled()});
    active_ns_ = std::max(active_ns_, static_cast<int64_t>(record.time_ns));
    if (record.kind == pack_kind(Kind::kOptimizer, Edge::kEnd)) ++optimizer_ends_;
  }
}

size_t RankTail::drain(uint64_t now_ns, bool final) {
  if (ended_) return 0;
  refresh_identity();
  size_t count = 0;
  while (count < reader_.capacity()) {
    records_.clear();
    const blackbox::ReadStats pass = reader_.read(records_, kChunk, now_ns, final);
    if (pass.lost + pass.torn > 0) builder_.note_lost(pass.lost + pass.torn);
    push(records_);
    count += records_.size();
    if (records_.size() < kChunk) break;
  }
  const size_t before = ready_.size();
  for (RankStep& step : builder_.take_completed()) ready_.push_back(std::move(step));
  if (!drained_) apply_mark();
  drained_ = true;
  copy_from(before);
  return count;
}

void RankTail::end(uint64_t now_ns, std::optional<int> wait_status) {
  if (ended_) return;
  while (drain(now_ns, true) >= reader_.capacity()) {
    if (records_.empty()) break;  // a writer that will not stop is no dead one
  }
  auto end_ns = static_cast<int64_t>(now_ns);
  if (before_ && before_->death_ns > 0) end_ns = before_->death_ns;
  builder_.finish(end_ns);
  const size_t before = ready_.size();
  for (RankStep& step : builder_.take_completed()) ready_.push_back(std::move(step));
  copy_from(before);
  if (wait_status) wait_status_ = wait_status;
  if (!wait_status_ && before_ && before_->wait_status >= 0) wait_status_ = before_->wait_status;
  ended_ = true;
}

uint64_t RankTail::optimizer_ends() const {
  const blackbox::ReadStats totals = reader_.totals();
  return totals.read == 0 ? 0 : optimizer_ends_ + optimizer_ends_ * (totals.lost + totals.torn) / totals.read;
}

void RankTail::ask_stamps(uint64_t until_optimizer_ends) {
  (void)reader_.set_control(blackbox::ControlWord::kStampUntilStep,
                            until_optimizer_ends);  // a ring that cannot be written to stays unasked
}

void RankTail::set_exit_status(int wait_status) {
  if (!wait_status_) wait_status_ = wait_status;
}

void RankTail::resume(const StepMark& mark) { before_ = mark; }

void RankTail::apply_mark() {
  if (!before_) return;
  const StepMark& mark = *before_;
  if (reader_.totals().lost == 0 || mark.steps == 0) return;  // nothing is missing: counted from the first record again
  const auto known = std::find_if(ready_.begin(), ready_.end(),
                                  [&](const RankStep& step) { return step.end_ns == mark.last_step_ns; });
  if (known != ready_.end()) {
    offset_ = mark.steps - 1 - std::min<uint64_t>(mark.steps - 1, known->step);
  } else {
    offset_ = mark.steps;
    numbers_certain_ = false;
  }
  if (ready_.empty()) return;
  // The ring begins in the middle of this step; its length means nothing.
  cut_ns_ = ready_.front().end_ns;
  ready_.erase(ready_.begin());
}

std::vector<RankStep> RankTail::take_steps() {
  std::vector<RankStep> steps = std::move(ready_);
  ready_.clear();
  taken_ = taken_ || !steps.empty();
  for (RankStep& step : steps) step.step += offset_;
  return steps;
}

// What completed before is copied as well where nobody has taken it yet.
void RankTail::copy_steps(bool on) {
  if (on == copies_on_) return;
  copies_on_ = on;
  copies_.clear();
  if (on) copy_from(0);
}

void RankTail::copy_from(size_t first) {
  if (!copies_on_) return;
  for (size_t i = first; i < ready_.size(); ++i) {
    copies_.push_back(ready_[i]);
    copies_.back().step += offset_;
  }
  if (copies_.size() > kMostCopies) copies_.erase(copies_.begin(), copies_.end() - kMostCopies / 2);
}

bool RankTail::exited_cleanly() const {
  // Neither os._exit(0), which skips the exit handlers, is a loss, nor sys.exit(1) or a signal after them a clean end.
  if (wait_status_) return WIFEXITED(*wait_status_) && WEXITSTATUS(*wait_status_) == 0;
  return (identity_.life & blackbox::kLifeClosed) != 0;
}

bool RankTail::failed_to_start() const {
  if (!ended_ || !is_starter() || exited_cleanly()) return false;
  return (wait_status_ || !builder_.life().exception.empty()) && !told_to_end(life());
}

bool RankTail::leaving() const {
  return builder_.life().teardown_begun || (identity_.life & (blackbox::kLifeTeardown | blackbox::kLifeClosed)) != 0;
}

void RankTail::watch_phases(bool on) {
  if (!on) return phases_.close();
  if (!phases_.open()) phases_.note(active_ns_, {builder_.phase(), builder_.stalled()});
}

// A step whose optimizer has stepped and that nothing has followed yet is still open to the step builder.
uint64_t RankTail::steps_begun() const {
  const RankLife& life = builder_.life();
  const bool one_more = whereabouts_.step_end_ns() > std::max(life.last_step_ns, life.first_step_ns);
  return steps() + (one_more ? 1 : 0);
}

std::string RankTail::no_stacks() const {
  for (const std::string& text : builder_.life().unavailable)
    if (text.starts_with("stacks: ")) return text.substr(8);
  return "its black box offers none";
}

std::string RankTail::ended_thread() const {
  const bool of_thread =
      ended_ && exited_cleanly() && wait_status_.value_or(0) == 0 && !(identity_.life & blackbox::kLifeException);
  return of_thread ? builder_.life().exception : "";
}

RankLife RankTail::life() const {
  RankLife life = builder_.life();
  lay_identity(identity_, life);
  life.steps += offset_;
  if (before_ && offset_ > 0 && before_->first_step_ns > 0) {
    // Steps that are in no record any more are time without a name, not start-up.
    life.first_step_ns = before_->first_step_ns;
    life.startup = {};
    life.startup[index(Category::kStartup)] = std::max<int64_t>(0, before_->first_step_ns - life.process_start_ns);
    life.startup[index(Category::kUnattributed)] = std::max<int64_t>(0, cut_ns_ - before_->first_step_ns);
  }
  life.ended = ended_;
  life.open_phase = is_starter() ? Category::kStartup : builder_.phase();
  life.teardown_begun =
      life.teardown_begun || (identity_.life & (blackbox::kLifeTeardown | blackbox::kLifeClosed)) != 0;
  if (life.exception.empty() && (identity_.life & blackbox::kLifeException)) life.exception = "uncaught exception";
  if (wait_status_) lay_exit(*wait_status_, life);
  life.clean_exit = exited_cleanly();
  if (!ended_thread().empty()) {
    life.exception.clear();
    life.exception_frames.clear();
    life.exception_ns = 0;
  }
  const blackbox::ReadStats totals = reader_.totals();
  life.records = totals.read;
  life.lost = totals.lost;
  life.torn = totals.torn;
  return life;
}

StepMark RankTail::mark() const {
  const RankLife& life = builder_.life();
  StepMark mark;
  mark.pid = identity_.pid;
  mark.start_ticks = identity_.pid_start_ticks;
  mark.steps = life.steps + offset_;
  mark.first_step_ns = before_ && before_->first_step_ns ? before_->first_step_ns : life.first_step_ns;
  mark.last_step_ns = life.last_step_ns;
  if (ended_) mark.death_ns = life.end_ns;
  if (wait_status_) mark.wait_status = *wait_status_;
  return mark;
}

}  // namespace stepscope
