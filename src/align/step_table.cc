#include "align/step_table.h"

#include <algorithm>

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
    cell.timed_ops.push_back({op.group, op.sequence, op.bytes, op.op, static_cast<float>((op.end_ns - op.begin_ns) * 1e-6)});
  }
  if (!step.device_ops.empty()) cell.device_comm_ms = union_ms(step.device_ops);
  cell.h2d_bytes = static_cast<double>(step.h2d_bytes);
  if (!step.memory) return;
  if (step.memory->held_bytes) cell.held_bytes = static_cast<double>(step.memory->held_bytes);
  cell.allocated_bytes = static_cast<double>(step.memory->allocated_bytes);
  cell.reserved_bytes = static_cast<double>(step.memory->reserved_bytes);
  cell.active_bytes = static_cast<double>(step.memory->active_bytes);
  cell.inactive_split_bytes = static_cast<double>(step.memory->inactive_split_bytes);
  if (step.memory->peak_bytes) cell.peak_bytes = static_cast<double>(step.memory->peak_bytes);
  cell.retries = step.memory->retries;
  cell.ooms = step.memory->ooms;
  cell.device_frees = step.memory->device_frees;
}

}  // namespace

float Cell::own_ms() const {
  float sum = 0;
  for (size_t c = 0; c < kCategoryCount; ++c)
    if (c != index(Category::kCommTransfer) && c != index(Category::kStragglerWait)) sum += ms[c];
  return sum;
}

int StepRow::present() const {
  return static_cast<int>(std::count_if(cells.begin(), cells.end(), [](const Cell& c) { return c.present; }));
}

Cell to_cell(const RankStep& step) {
  Cell cell;
  cell.present = true;
  cell.tags = step.tags;
  cell.end_ns = step.end_ns;
  cell.host_wall_ms = static_cast<float>(step.wall_ns() * 1e-6);
  cell.host_ms = to_ms(step.own);
  cell.host_ms[index(Category::kCommTransfer)] += static_cast<float>(step.stall_ns() * 1e-6);
  cell.gpu = step.gpu.has_value();
  cell.host_bound = cell.gpu ? step.gpu->host_bound : 0;
  if (cell.gpu) cell.launching_ms = to_ms(step.gpu->launching);
  cell.wall_ms = cell.gpu ? static_cast<float>(step.gpu->wall_ns * 1e-6) : cell.host_wall_ms;
  cell.ms = to_ms(cell.gpu ? step.gpu->own : step.own);
  for (const LedgerNs& segment : cell.gpu ? step.gpu->segments : step.segments) cell.segments.push_back(to_ms(segment));
  for (const Stall& s : cell.gpu ? step.gpu->stalls : step.stalls) {
    cell.stalls.push_back({s.group, s.sequence, static_cast<float>(s.duration_ns * 1e-6), 0, s.phase});
    cell.stall_ms += cell.stalls.back().stall_ms;
  }
  fill_device(cell, step);
  for (const CollectiveIssue& issue : step.collectives) {
    cell.bytes += static_cast<double>(issue.bytes);
    if (issue.since_backward_ns < 0 && issue.bytes <= kSmallCollectiveBytes && !issue.p2p) ++cell.small_collectives;
    if (issue.since_backward_ns >= 0 && cell.bucket_ms.size() < kMaxBuckets)
      cell.bucket_ms.push_back(static_cast<float>(issue.since_backward_ns * 1e-6));
    if (issue.done_ns > issue.time_ns && step.device_ops.empty() && !issue.p2p && cell.timed_ops.size() < kMaxTimedOps)
      cell.timed_ops.push_back({issue.group, issue.sequence, issue.bytes, issue.op, static_cast<float>((issue.done_ns - issue.time_ns) * 1e-6)});
  }
  cell.collectives = static_cast<uint32_t>(step.collectives.size());
  if (step.usage) {
    cell.cpu_ms = static_cast<float>(step.usage->cpu_ns * 1e-6);
    cell.involuntary_switches = static_cast<int32_t>(step.usage->involuntary_switches);
  }
  cell.gc_ms = static_cast<float>(step.gc_ns * 1e-6);
  cell.sync_ms = static_cast<float>(step.sync_ns * 1e-6);
  cell.fetches = step.fetch.fetches;
  cell.fetch_ready = step.fetch.ready;
  cell.fetch_out_of_order = step.fetch.out_of_order;
  cell.fetch_in_flight = step.fetch.in_flight;
  cell.samples = step.samples;
  cell.tokens = step.tokens;
  cell.flops = step.flops;
  cell.loss = step.loss;
  cell.has_loss = step.has_loss;
  cell.epoch = step.epoch;
  cell.signature = step.signature;
  return cell;
}

StepTable::StepTable(OnClose on_close) : on_close_(std::move(on_close)) {}

void StepTable::grow(int ranks) {
  expected_ = std::max(expected_, static_cast<size_t>(std::max(0, ranks)));
  if (ranks <= this->ranks()) return;
  alive_.resize(ranks, true);
  next_.resize(ranks, closed_);
}

void StepTable::expect_ranks(int count) { grow(count); }

void StepTable::set_gone(int rank) {
  if (rank < 0) return;
  grow(rank + 1);
  alive_[rank] = false;
}

void StepTable::await(int rank) {
  if (rank < 0) return;
  grow(rank + 1);
  alive_[rank] = true;
}

void StepTable::begin_attempt(int world_size) {
  expected_ = world_size > 0 ? std::min(static_cast<size_t>(world_size), alive_.size()) : alive_.size();
  for (size_t r = 0; r < alive_.size(); ++r) alive_[r] = r < expected_;
  std::fill(next_.begin(), next_.end(), closed_);
}

void StepTable::add(int rank, const RankStep& step) {
  if (rank < 0) return;
  grow(rank + 1);
  next_[rank] = step.step + 1;
  if (step.step < closed_) {
    // Late: fill it in where the row is still kept whole. Attribution of that row is not done again.
    for (StepRow& row : recent_) {
      if (row.step != step.step) continue;
      if (row.cells.size() <= static_cast<size_t>(rank)) row.cells.resize(rank + 1);
      if (!row.cells[rank].present) ++cells_seen_;
      row.cells[rank] = to_cell(step);
    }
    return;
  }
  StepRow& row = open_[step.step];
  row.step = step.step;
  if (row.cells.size() < alive_.size()) row.cells.resize(alive_.size());
  row.cells[rank] = to_cell(step);
}

void StepTable::close_ready(bool all) {
  while (!open_.empty()) {
    auto first = open_.begin();
    bool ready = true;
    if (!all) {
      uint32_t ahead = 0;
      for (uint32_t next : next_) ahead = std::max(ahead, next);
      for (size_t r = 0; r < alive_.size() && ready; ++r)
        if (alive_[r] && next_[r] <= first->first) ready = ahead > first->first + kMaxLead;
    }
    if (!ready) return;
    StepRow row = std::move(first->second);
    open_.erase(first);
    close(std::move(row));
  }
}

void StepTable::close(StepRow row) {
  row.cells.resize(alive_.size());
  for (const Cell& cell : row.cells) {
    if (!cell.present) continue;
    row.tags |= cell.tags;
    row.wall_ms = std::max(row.wall_ms, cell.wall_ms);
  }
  closed_ = row.step + 1;
  cells_seen_ += row.present();
  cells_expected_ += expected_;
  on_close_(row);
  recent_.push_back(std::move(row));
  if (recent_.size() <= kRecentRows) return;
  StepRow old = std::move(recent_.front());
  recent_.pop_front();
  if (old.step % stride_ != 0) return;
  sample_.push_back(std::move(old));
  if (sample_.size() < kSampleRows) return;
  stride_ *= 2;
  std::erase_if(sample_, [&](const StepRow& r) { return r.step % stride_ != 0; });
}

}  // namespace stepscope
