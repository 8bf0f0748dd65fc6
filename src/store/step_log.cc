#include "store/step_log.h"

#include <algorithm>
#include <iterator>

namespace stepscope::store {
namespace {

constexpr size_t kMaxHeldCells = 1u << 17;
constexpr unsigned kThinsPerWrite = 4, kThinsPerShrink = 64;
constexpr size_t kMaxSmall = 32;

}  // namespace

Status StepLog::attach(Database& db) {
  db_ = &db;
  store_ = std::make_unique<SegmentStore>(db);
  return retention_.load(*store_);
}

bool StepLog::holds(int32_t attempt, uint64_t step) {
  if (attempt != last_attempt_) {
    last_attempt_ = attempt;
    last_step_ = retention_.last_step(attempt);
    for (const Group& group : groups_)
      if (group.attempt == attempt && !group.rows.empty())
        last_step_ = std::max<int64_t>(last_step_, group.rows.back().step);
  }
  return static_cast<int64_t>(step) <= last_step_;
}

bool StepLog::add(int32_t attempt, FlatRow row) {
  const size_t cells = row.cells.size();
  if (cells == 0 || row.ranks.back() >= static_cast<int64_t>(kMaxRanks)) return false;
  if (held_cells_ + cells > std::max(kMaxHeldCells, 2 * cells)) return false;
  const auto has = [&](const std::vector<int32_t>& ranks) {
    return std::includes(ranks.begin(), ranks.end(), row.ranks.begin(), row.ranks.end());
  };
  if (groups_.empty() || groups_.back().ended || groups_.back().attempt != attempt || !has(groups_.back().ranks)) {
    end_groups();
    // A rank that comes and goes does not begin a group each time.
    if (ranks_attempt_ != attempt) ranks_.clear();
    ranks_attempt_ = attempt;
    std::vector<int32_t> all;
    std::set_union(ranks_.begin(), ranks_.end(), row.ranks.begin(), row.ranks.end(), std::back_inserter(all));
    ranks_ = std::move(all);
    Group& fresh = groups_.emplace_back();
    fresh.attempt = attempt;
    fresh.ranks = ranks_;
    fresh.target = target_rows(static_cast<uint32_t>(ranks_.size()), max_bytes_, full_steps_);
  }
  Group& group = groups_.back();
  last_step_ = row.step;
  group.rows.push_back(std::move(row));
  if (group.rows.size() >= group.target) group.ended = true;
  ++waiting_;
  held_cells_ += cells;
  return true;
}

void StepLog::end_groups() {
  for (Group& group : groups_) group.ended = true;
}

bool StepLog::group_complete() const { return !groups_.empty() && groups_.front().ended; }

Status StepLog::write_group(Group& group) {
  group.flushing = group.rows.size();
  const bool nothing_new = group.flushed == group.rows.size();
  if (nothing_new && group.ended && group.small.size() == 1) group.done = true;
  if (group.done || (nothing_new && !group.ended)) return {};
  // A complete group, or one of many small segments, is written as one.
  const bool whole = group.ended || group.small.size() >= kMaxSmall;
  if (whole) {
    for (int64_t id : group.small) {
      if (Status status = store_->remove(id); !status) return status;
      retention_.remove(id);
    }
    group.small.clear();
  }
  Segment segment = make_segment(group.attempt, std::span(group.rows).subspan(whole ? 0 : group.flushed), group.ranks);
  if (Status status =
          store_->insert(segment, codec_, group.ended ? ColumnCodec::Effort::kFull : ColumnCodec::Effort::kFast);
      !status)
    return status;
  retention_.add(segment.head);
  if (group.ended)
    group.done = true;
  else
    group.small.push_back(segment.head.id);
  return {};
}

void StepLog::pin_small() {
  std::set<int64_t> ids;
  for (const Group& group : groups_)
    if (!group.done) ids.insert(group.small.begin(), group.small.end());
  retention_.set_pinned(std::move(ids));
}

Status StepLog::write(Database&) {
  if (stale_) {
    if (Status status = retention_.load(*store_); !status) return status;
    stale_ = false;
  }
  bool complete = false;
  for (Group& group : groups_) {
    if (Status status = write_group(group); !status) return status;
    complete = complete || group.done;
  }
  pin_small();
  return complete ? retention_.enforce(*store_, codec_, kThinsPerWrite) : Status();
}

Status StepLog::shrink() {
  retention_.tighten();
  if (Status status = retention_.load(*store_); !status) return status;
  stale_ = true;
  pin_small();
  return retention_.enforce(*store_, codec_, kThinsPerShrink);
}

void StepLog::committed() {
  for (Group& group : groups_) {
    rows_ += group.flushing - group.flushed;
    for (size_t i = group.flushed; i < group.flushing; ++i) cells_ += group.rows[i].cells.size();
    group.flushed = group.flushing;
    group.small_before = group.small;
  }
  while (!groups_.empty() && groups_.front().done) {
    for (const FlatRow& row : groups_.front().rows) held_cells_ -= row.cells.size();
    groups_.pop_front();
  }
  waiting_ = 0;
}

void StepLog::rolled_back() {
  for (Group& group : groups_) {
    group.small = group.small_before;
    group.done = false;
  }
  stale_ = true;
}

uint64_t StepLog::give_up() {
  uint64_t lost = 0;
  for (const Group& group : groups_) lost += group.rows.size() - group.flushed;
  groups_.clear();
  waiting_ = held_cells_ = 0;
  stale_ = true;
  return lost;
}

}  // namespace stepscope::store
