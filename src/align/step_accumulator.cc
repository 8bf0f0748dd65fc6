#include "align/step_accumulator.h"

#include <algorithm>

namespace stepscope {

void StepAccumulator::add_own(Category category, int64_t ns) {
  if (ns <= 0) return;
  data_.own[index(category)] += ns;
  data_.segments.back()[index(category)] += ns;
  total_ns_ += ns;
}

void StepAccumulator::move_own(Category from, Category to, int64_t ns) {
  for (auto segment = data_.segments.rbegin(); segment != data_.segments.rend() && ns > 0; ++segment) {
    const int64_t part = std::min(ns, (*segment)[index(from)]);
    (*segment)[index(from)] -= part;
    (*segment)[index(to)] += part;
    data_.own[index(from)] -= part;
    data_.own[index(to)] += part;
    ns -= part;
  }
}

void StepAccumulator::add_stall(const Stall& stall) {
  if (stall.duration_ns <= 0) return;
  total_ns_ += stall.duration_ns;
  if (data_.stalls.size() >= kMaxStalls) {
    data_.stalls.back().duration_ns += stall.duration_ns;
    data_.tags |= kTagLossy;
    return;
  }
  data_.stalls.push_back(stall);
  data_.segments.emplace_back();
}

void StepAccumulator::add_collective(const CollectiveIssue& issue) {
  if (data_.collectives.size() >= kMaxCollectives) {
    data_.tags |= kTagLossy;
    return;
  }
  data_.collectives.push_back(issue);
}

bool StepAccumulator::complete(uint64_t group, uint64_t sequence, uint8_t op, int64_t done_ns) {
  for (auto it = data_.collectives.rbegin(); it != data_.collectives.rend(); ++it) {
    if (it->group == group && it->sequence == sequence && it->op == op) {
      it->done_ns = done_ns;
      return true;
    }
  }
  return false;
}

void StepAccumulator::add_records(uint32_t records, uint32_t lost) {
  data_.records += records;
  data_.lost += lost;
  if (lost) data_.tags |= kTagLossy;
}

// What is no figure joins by hand.
static_assert(sizeof(RankStep) == sizeof(StepFacts) + 3 * sizeof(int64_t) + sizeof(LedgerNs) +
                                      sizeof(std::vector<Stall>) + sizeof(std::vector<LedgerNs>) +
                                      sizeof(std::vector<CollectiveIssue>) + sizeof(std::optional<GpuStep>) +
                                      sizeof(std::vector<DeviceOp>),
              "a new member of RankStep: make it a row of step_fields.def, or join it below");

void StepAccumulator::join(StepAccumulator& later) {
  RankStep& b = later.data_;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    data_.own[c] += b.own[c];
    data_.segments.back()[c] += b.segments.front()[c];
  }
  for (size_t j = 0; j < b.stalls.size(); ++j) {
    if (data_.stalls.size() >= kMaxStalls) {
      data_.stalls.back().duration_ns += b.stalls[j].duration_ns;
      for (size_t c = 0; c < kCategoryCount; ++c) data_.segments.back()[c] += b.segments[j + 1][c];
      data_.tags |= kTagLossy;
      continue;
    }
    data_.stalls.push_back(b.stalls[j]);
    data_.segments.push_back(b.segments[j + 1]);
  }
  for (const CollectiveIssue& issue : b.collectives) add_collective(issue);
  data_.StepFacts::join(b);
  total_ns_ += later.total_ns_;
  later = StepAccumulator(later.begin_ns_ + later.total_ns_);
}

RankStep StepAccumulator::take(int64_t end_ns) {
  RankStep step = std::move(data_);
  step.begin_ns = begin_ns_;
  step.end_ns = end_ns;
  *this = StepAccumulator(end_ns);
  return step;
}

}  // namespace stepscope
