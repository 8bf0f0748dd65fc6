#include "store/retention.h"

#include <algorithm>
#include <cmath>

namespace stepscope::store {
namespace {

constexpr uint32_t kCellsWanted = 16384, kMaxBufferedCells = 65536;
constexpr uint32_t kMinRows = 64, kMaxTargetRows = 4096;

bool before(const SegmentHead& a, const SegmentHead& b) {
  return std::pair(a.attempt, a.step0) < std::pair(b.attempt, b.step0);
}

}  // namespace

uint32_t target_rows(uint32_t ranks, uint64_t max_bytes, uint32_t full_steps) {
  const auto cells = static_cast<uint32_t>(std::clamp<uint64_t>(max_bytes / 512, 1024, kMaxBufferedCells));
  const uint32_t wanted = std::clamp(kCellsWanted / std::max(1u, ranks), kMinRows, kMaxTargetRows);
  return std::max(1u, std::min({wanted, cells / std::max(1u, ranks), std::max(kMinRows, full_steps / 4)}));
}

Status Retention::load(SegmentStore& store) {
  uint64_t damaged = 0;
  auto heads = store.list(-1, 0, INT64_MAX, damaged);
  if (!heads) return std::unexpected(heads.error());
  heads_ = std::move(*heads);
  return {};
}

void Retention::add(const SegmentHead& head) {
  heads_.insert(std::upper_bound(heads_.begin(), heads_.end(), head, before), head);
}

void Retention::remove(int64_t id) {
  std::erase_if(heads_, [id](const SegmentHead& h) { return h.id == id; });
}

int64_t Retention::last_step(int32_t attempt) const {
  int64_t last = -1;
  for (const SegmentHead& h : heads_)
    if (h.attempt == attempt) last = std::max<int64_t>(last, h.step1);
  return last;
}

uint64_t Retention::bytes() const {
  uint64_t sum = 0;
  for (const SegmentHead& h : heads_) sum += h.bytes;
  return sum;
}

uint64_t Retention::bytes_of(uint32_t level) const {
  uint64_t sum = 0;
  for (const SegmentHead& h : heads_) sum += h.level == level ? h.bytes : 0;
  return sum;
}

uint64_t Retention::promised(uint32_t level) const { return level == 0 ? full_steps_ : full_steps_ / 2; }

uint64_t Retention::room(uint32_t level) const {
  const double room = share_ * static_cast<double>(max_bytes_);
  return static_cast<uint64_t>(level == 0 ? room * 0.5 : room * 0.15 * std::pow(0.7, level - 1));
}

bool Retention::over(uint32_t level) const {
  uint64_t rows = 0, oldest_rows = 0, segments = 0;
  for (const SegmentHead& h : heads_) {
    if (h.level != level) continue;
    if (segments++ == 0) oldest_rows = h.rows;
    rows += h.rows;
  }
  // What is thinned next must leave as many rows as are promised.
  return segments > 1 && (bytes_of(level) > room(level) || rows - oldest_rows > promised(level));
}

// The oldest segments of a level that fit together and give no more than a full segment when halved.
std::vector<SegmentHead> Retention::oldest_run(uint32_t level) const {
  std::vector<SegmentHead> run;
  uint64_t rows = 0, left = 0;
  for (const SegmentHead& h : heads_) left += h.level == level ? h.rows : 0;
  const bool by_rows = bytes_of(level) <= room(level);
  for (const SegmentHead& h : heads_) {
    if (run.empty()) {
      if (h.level != level) continue;
      if (pinned_.contains(h.id)) break;
    } else if (pinned_.contains(h.id)) {
      break;
    } else if (h.level != level || h.attempt != run[0].attempt || h.ranks != run[0].ranks ||
               h.step0 <= run.back().step1) {
      break;
    }
    rows += h.rows;
    if (!run.empty() && by_rows && left - rows < promised(level)) break;
    const uint32_t most =
        2 * std::min<uint32_t>(kMaxRows, static_cast<uint32_t>(kMaxCells / h.ranks));  // halved, it must fit
    if (!run.empty() && (rows > 2 * target_rows(h.ranks, max_bytes_, full_steps_) || rows > most)) break;
    run.push_back(h);
  }
  return run;
}

Status Retention::thin_level(uint32_t level, SegmentStore& store, ColumnCodec& codec) {
  const std::vector<SegmentHead> run = oldest_run(level);
  std::vector<Segment> parts;
  for (const SegmentHead& head : run) {
    auto segment = store.load(head, codec);
    if (segment && !parts.empty() && segment->ranks != parts[0].ranks) break;  // its turn comes
    if (segment)
      parts.push_back(std::move(*segment));
    else
      dropped_steps_ += head.steps;  // damaged on disk: nothing to keep of it
    if (Status status = store.remove(head.id); !status) return status;
    remove(head.id);
  }
  if (parts.empty()) return {};
  Segment thinned = thin(parts);
  if (Status status = store.insert(thinned, codec); !status) return status;
  add(thinned.head);
  return {};
}

Status Retention::drop_oldest(SegmentStore& store) {
  const SegmentHead head = heads_.front();
  dropped_steps_ += head.steps;
  remove(head.id);
  return store.remove(head.id);
}

Status Retention::enforce(SegmentStore& store, ColumnCodec& codec, unsigned operations) {
  for (; operations > 0; --operations) {
    uint32_t level = 0;
    while (level < kMaxLevel && (!over(level) || oldest_run(level).empty())) ++level;
    Status status;
    if (level < kMaxLevel)
      status = thin_level(level, store, codec);
    else if (static_cast<double>(bytes()) > 1.05 * share_ * static_cast<double>(max_bytes_) && heads_.size() > 1 &&
             !pinned_.contains(heads_[0].id))
      status = drop_oldest(store);
    else
      return {};
    if (!status) return status;
  }
  return {};
}

}  // namespace stepscope::store
