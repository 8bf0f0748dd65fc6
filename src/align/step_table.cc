#include "align/step_table.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace stepscope {

namespace {

constexpr size_t kMaxBuckets = 64, kMaxTimedOps = 256;

LedgerMs to_ms(const LedgerNs& ns) {
  LedgerMs ms;
  for (size_t c = 0; c < kCategoryCount; ++c) ms[c] = static_cast<float>(static_cast<double>(ns[c]) * 1e-6);
  return ms;
}

// Length of the union of intervals that are sorted by nothing in particular.
float union_ms(const std::vector<DeviceOp>& ops) {
  std::vector<std::pair<int64_t, int64_t>> spans;
  for (const DeviceOp& op : ops) spans.push_back({op.begin_ns, op.end_ns});
  std::sort(spans.begin(), spans.end());
  int64_t total = 0, reach = INT64_MIN;
  for (const auto& [begin, end] : spans) {
    if (end <= reach) continue;
    total += end - std::max(begin, reach == INT64_MIN ? begin : reach);
    reach = end;
  }
  return static_cast<float>(static_cast<double>(total) * 1e-6);
}

void fill_device(Cell& cell, const RankStep& step) {
  for (const DeviceOp& op : step.device_ops) {
    if (cell.timed_ops.size() >= kMaxTimedOps) break;
    cell.timed_ops.push_back(
        {op.group, op.sequence, op.bytes, op.op, static_cast<float>((op.end_ns - op.begin_ns) * 1e-6), op.peer});
  }
  if (!step.device_ops.empty()) cell.device_comm_ms = union_ms(step.device_ops);
}

bool before(const Blame& a, const Blame& b) { return std::pair(a.causer, a.waiter) < std::pair(b.causer, b.waiter); }

// `v = {}` would keep the memory.
template <class T>
void give_back(std::vector<T>& v) {
  std::vector<T>().swap(v);
}

// Of a cell's detail, what the allocator adds included.
template <class T>
size_t bytes_of(const std::vector<T>& v) {
  constexpr size_t kAllocation = 16;
  return v.capacity() == 0 ? 0 : v.capacity() * sizeof(T) + kAllocation;
}

}  // namespace

float Cell::own_ms() const {
  float sum = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (!is_of_stalls(static_cast<Category>(c))) sum += ms[c];
  return sum;
}

SyncPointKey CellStall::key(int rank) const {
  SyncPointKey key{group, sequence};
  key.counted = sync_point.counted;
  if (sync_point.peer < 0) return key;
  key.source = sync_point.sends ? rank : sync_point.peer;
  key.target = sync_point.sends ? sync_point.peer : rank;
  return key;
}

const Cell* StepRow::find(int rank) const {
  if (rank < 0) return nullptr;
  const auto at = static_cast<size_t>(rank);
  if (at < cells.size() && cells[at].rank == rank) return &cells[at];
  const auto found =
      std::lower_bound(cells.begin(), cells.end(), rank, [](const Cell& c, int r) { return c.rank < r; });
  return found != cells.end() && found->rank == rank ? &*found : nullptr;
}

float StepRow::caused_ms(int causer, int waiter) const {
  const auto found = std::lower_bound(caused.begin(), caused.end(), Blame{causer, waiter, 0}, before);
  return found != caused.end() && found->causer == causer && found->waiter == waiter ? found->ms : 0;
}

void StepRow::drop_detail() {
  detailed = false;
  for (Cell& cell : cells) {
    give_back(cell.segments);
    give_back(cell.stalls);
    give_back(cell.timed_ops);
    give_back(cell.bucket_ms);
  }
}

size_t StepRow::bytes() const {
  size_t sum = sizeof *this + cells.capacity() * sizeof(Cell) + caused.capacity() * sizeof(Blame);
  for (const Cell& c : cells) {
    sum += bytes_of(c.segments) + bytes_of(c.stalls) + bytes_of(c.timed_ops) + bytes_of(c.bucket_ms);
  }
  return sum;
}

void settle(std::vector<Blame>& caused) {
  std::sort(caused.begin(), caused.end(), before);
  size_t out = 0;
  for (size_t i = 0; i < caused.size(); ++i) {
    if (out > 0 && caused[out - 1].causer == caused[i].causer && caused[out - 1].waiter == caused[i].waiter)
      caused[out - 1].ms += caused[i].ms;
    else
      caused[out++] = caused[i];
  }
  caused.resize(out);
}

Cell to_cell(int rank, const RankStep& step) {
  Cell cell;
  set_figures(cell, step);
  cell.rank = rank;
  cell.end_ns = step.end_ns;
  cell.host_wall_ms = static_cast<float>(step.wall_ns() * 1e-6);
  cell.host_ms = to_ms(step.own);
  cell.host_ms[index(Category::kCommTransfer)] += static_cast<float>(step.stall_ns() * 1e-6);
  cell.gpu = step.gpu.has_value();
  cell.host_bound = cell.gpu ? step.gpu->host_bound : 0;
  if (cell.gpu) cell.launching_ms = to_ms(step.gpu->launching);
  cell.wall_ms = cell.gpu ? static_cast<float>(step.gpu->wall_ns * 1e-6) : cell.host_wall_ms;
  cell.ms = to_ms(cell.gpu ? step.gpu->own : step.own);
  cell.segments.reserve(cell.gpu ? step.gpu->segments.size() : step.segments.size());
  cell.stalls.reserve(cell.gpu ? step.gpu->stalls.size() : step.stalls.size());
  for (const LedgerNs& segment : cell.gpu ? step.gpu->segments : step.segments) cell.segments.push_back(to_ms(segment));
  for (const Stall& s : cell.gpu ? step.gpu->stalls : step.stalls) {
    cell.stalls.push_back({s.group, s.sequence, static_cast<float>(s.duration_ns * 1e-6), 0, s.phase, 0, s.sync_point});
    cell.stall_ms += cell.stalls.back().stall_ms;
  }
  fill_device(cell, step);
  for (const CollectiveIssue& issue : step.collectives) {
    cell.bytes += static_cast<double>(issue.bytes);
    if (issue.since_backward_ns < 0 && issue.bytes <= kSmallCollectiveBytes && !issue.p2p) ++cell.small_collectives;
    if (issue.since_backward_ns >= 0 && cell.bucket_ms.size() < kMaxBuckets)
      cell.bucket_ms.push_back(static_cast<float>(issue.since_backward_ns * 1e-6));
    if (issue.done_ns > issue.time_ns && step.device_ops.empty() && !issue.p2p && cell.timed_ops.size() < kMaxTimedOps)
      cell.timed_ops.push_back({issue.group, issue.sequence, issue.bytes, issue.op,
                                static_cast<float>((issue.done_ns - issue.time_ns) * 1e-6)});
  }
  cell.collectives = static_cast<uint32_t>(step.collectives.size());
  return cell;
}

StepTable::StepTable(OnClose on_close, OnLate on_late) : on_close_(std::move(on_close)), on_late_(std::move(on_late)) {}

void StepTable::expect_ranks(int count) {
  world_ = std::max(world_, count);
  expected_ = std::max(expected_, count);
}

StepTable::Progress& StepTable::progress(int rank) {
  const auto [found, fresh] = progress_.try_emplace(rank, Progress{closed_, true});
  if (fresh) {
    ++waiting_at_[closed_];
    expect_ranks(rank + 1);
  }
  return found->second;
}

void StepTable::leave(const Progress& p) {
  const auto found = waiting_at_.find(p.next);
  if (--found->second == 0) waiting_at_.erase(found);
}

void StepTable::await(int rank) {
  if (rank < 0) return;
  Progress& p = progress(rank);
  if (std::exchange(p.alive, true)) return;
  p.next = std::max(p.next, closed_);
  ++waiting_at_[p.next];
}

void StepTable::set_gone(int rank) {
  if (rank < 0) return;
  Progress& p = progress(rank);
  if (std::exchange(p.alive, false)) leave(p);
}

void StepTable::begin_attempt(int world_size) {
  expected_ = world_size > 0 ? std::min(world_size, world_) : world_;
  progress_.clear();
  waiting_at_.clear();
  alignment_ = {};
  left_out_.clear();
  ahead_ = closed_;
}

void StepTable::add(int rank, const RankStep& step) {
  if (rank < 0) return;
  const auto behind = left_out_.find(rank);
  const uint64_t number = step.step + (behind == left_out_.end() ? 0 : behind->second);
  Progress& p = progress(rank);
  if (p.alive) leave(p);
  p.next = number + 1;
  if (p.alive) ++waiting_at_[p.next];
  ahead_ = std::max(ahead_, p.next);
  if (const auto at = std::lower_bound(seen_.begin(), seen_.end(), rank); at == seen_.end() || *at != rank)
    seen_.insert(at, rank);
  if (number < closed_) {
    fill_late(rank, number, step);
    return;
  }
  StepRow& row = open_[number];
  row.step = number;
  row.cells.push_back(to_cell(rank, step));
  alignment_.note(rank, number, step.collectives);
}

size_t StepTable::realign(uint64_t number) {
  const std::vector<int> ranks = alignment_.settle(number);
  for (const int rank : ranks) move_on(rank, number);
  return ranks.size();
}

void StepTable::move_on(int rank, uint64_t number) {
  ++left_out_[rank];
  for (auto at = open_.end(); at != open_.begin();) {
    --at;
    if (at->first < number) break;
    const auto its = [rank](const Cell& cell) { return cell.rank == rank; };
    std::vector<Cell>& cells = at->second.cells;
    const auto theirs = std::stable_partition(cells.begin(), cells.end(), std::not_fn(its));
    if (theirs == cells.end()) continue;
    StepRow& next = open_[at->first + 1];
    next.step = at->first + 1;
    std::move(theirs, cells.end(), std::back_inserter(next.cells));
    cells.erase(theirs, cells.end());
  }
  const auto found = progress_.find(rank);
  if (found == progress_.end()) return;
  Progress& p = found->second;
  if (p.alive) leave(p);
  ++p.next;
  if (p.alive) ++waiting_at_[p.next];
  ahead_ = std::max(ahead_, p.next);
}

// Rows that were closed without it and are still kept.
void StepTable::fill_late(int rank, uint64_t number, const RankStep& step) {
  const auto by_step = [](const StepRow& row, uint64_t wanted) { return row.step < wanted; };
  const auto recent = std::lower_bound(recent_.begin(), recent_.end(), number, by_step);
  StepRow* row = nullptr;
  if (recent != recent_.end() && recent->step == number) row = &*recent;
  if (const auto old = std::lower_bound(sample_.begin(), sample_.end(), number, by_step);
      !row && old != sample_.end() && old->step == number)
    row = &*old;
  if (!row || row->find(rank)) return;
  kept_bytes_ -= row->bytes();
  const auto at =
      std::lower_bound(row->cells.begin(), row->cells.end(), rank, [](const Cell& c, int r) { return c.rank < r; });
  Cell& cell = *row->cells.insert(at, to_cell(rank, step));
  ++cells_seen_;
  row->tags |= cell.tags;
  row->wall_ms = std::max(row->wall_ms, cell.wall_ms);
  if (on_late_) on_late_(*row, cell);
  if (!row->detailed) row->drop_detail();
  kept_bytes_ += row->bytes();
}

void StepTable::close_ready(bool all) {
  while (!open_.empty()) {
    auto first = open_.begin();
    const bool awaited = !waiting_at_.empty() && waiting_at_.begin()->first <= first->first;
    if (!all && awaited && ahead_ <= first->first + kMaxLead) return;
    const size_t left_out = realign(first->first);
    StepRow row = std::move(first->second);
    open_.erase(first);
    close(std::move(row), left_out);
  }
}

void StepTable::close(StepRow row, size_t left_out) {
  // Of a step that a rank told twice the later word counts.
  std::reverse(row.cells.begin(), row.cells.end());
  std::stable_sort(row.cells.begin(), row.cells.end(), [](const Cell& a, const Cell& b) { return a.rank < b.rank; });
  row.cells.erase(
      std::unique(row.cells.begin(), row.cells.end(), [](const Cell& a, const Cell& b) { return a.rank == b.rank; }),
      row.cells.end());
  row.cells.shrink_to_fit();
  for (const Cell& cell : row.cells) {
    row.tags |= cell.tags;
    row.wall_ms = std::max(row.wall_ms, cell.wall_ms);
  }
  closed_ = row.step + 1;
  cells_seen_ += row.cells.size();
  cells_expected_ += static_cast<uint64_t>(expected_) - std::min<uint64_t>(left_out, static_cast<uint64_t>(expected_));
  on_close_(row);
  row.caused.shrink_to_fit();
  keep(std::move(row));
}

size_t StepTable::bytes_allowed() const { return std::max(kKeptBytes, seen_.size() * kKeptBytesPerRank); }

void StepTable::keep(StepRow row) {
  kept_bytes_ += row.bytes();
  recent_.push_back(std::move(row));
  if (recent_.size() > kRecentRows) retire_oldest();
  if (sample_.size() >= kSampleRows) halve_sample();
  while (kept_bytes_ > bytes_allowed()) {
    if (drop_oldest_detail(kLeastRecentRows)) continue;
    if (sample_.size() >= kLeastSampleRows)
      halve_sample();
    else if (recent_.size() > kLeastRecentRows)
      retire_oldest();
    else if (!drop_oldest_detail(1))
      return;
  }
}

void StepTable::retire_oldest() {
  StepRow old = std::move(recent_.front());
  recent_.pop_front();
  if (old.step % stride_ == 0) {
    sample_.push_back(std::move(old));
    return;
  }
  kept_bytes_ -= old.bytes();
  if (!old.detailed) --plain_;
}

void StepTable::halve_sample() {
  stride_ *= 2;
  std::erase_if(sample_, [&](const StepRow& r) {
    if (r.step % stride_ == 0) return false;
    kept_bytes_ -= r.bytes();
    if (!r.detailed) --plain_;
    return true;
  });
}

// Of the oldest row that has some; the newest `newest_kept` are left alone. Returns whether there was one.
bool StepTable::drop_oldest_detail(size_t newest_kept) {
  const size_t rows = sample_.size() + recent_.size();
  if (plain_ + newest_kept >= rows) return false;
  StepRow& row = plain_ < sample_.size() ? sample_[plain_] : recent_[plain_ - sample_.size()];
  kept_bytes_ -= row.bytes();
  row.drop_detail();
  kept_bytes_ += row.bytes();
  ++plain_;
  return true;
}

}  // namespace stepscope
