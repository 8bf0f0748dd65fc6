#include "analyze/late_blocks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "analyze/batch_size.h"
#include "analyze/robust.h"

namespace stepscope {

namespace {

constexpr size_t kMostBuckets = 64, kFewSteps = 4;
constexpr float kBeyondNoise = 0.05f;  // of the rank's whole excess

using Numbered = std::pair<size_t, LateBlock>;  // with the number of the block

// Of block `i` of the list: whether the one before or behind it is late too.
bool has_neighbour(const std::vector<Numbered>& list, size_t i) {
  return (i > 0 && list[i - 1].first + 1 == list[i].first) ||
         (i + 1 < list.size() && list[i].first + 1 == list[i + 1].first);
}

class ByRow {
 public:
  explicit ByRow(const std::vector<LateBlock>& blocks) {
    for (const LateBlock& b : blocks)
      for (const StepRow* row : b.rows.rows) at_[row] = b.excess;
  }
  const RankExcess* find(const StepRow* row) const {
    const auto found = at_.find(row);
    return found == at_.end() ? nullptr : &found->second;
  }

 private:
  std::map<const StepRow*, RankExcess> at_;
};

bool is_beyond_noise(const RankExcess& e, size_t category) {
  return e.category_ms[category] > kBeyondNoise * static_cast<float>(e.excess_ms);
}

}  // namespace

std::map<int, std::vector<LateBlock>> late_blocks(const Rows& rows, const BlockLimits& limits) {
  std::map<int, std::vector<Numbered>> late;
  size_t blocks = 0;
  for (size_t from = 0; from < rows.size(); ++blocks) {
    const size_t to = rows.size() - from < 2 * limits.rows ? rows.size() : from + limits.rows;
    const Rows block = rows.slice(from, to);
    for (const RankExcess& e : rank_excess(block, limits.straggler))
      if (e.late) late[e.rank].push_back({blocks, {block, e}});
    from = to;
  }
  std::map<int, std::vector<LateBlock>> out;
  for (auto& [rank, list] : late) {
    const bool often = static_cast<double>(list.size()) >= limits.least_share * static_cast<double>(blocks);
    for (size_t i = 0; i < list.size(); ++i)
      if (often || has_neighbour(list, i)) out[rank].push_back(std::move(list[i].second));
  }
  return out;
}

Rows rows_of(const std::vector<LateBlock>& blocks) {
  Rows late;
  for (const LateBlock& b : blocks)
    for (size_t i = 0; i < b.rows.size(); ++i) late.add(*b.rows.rows[i], b.rows.weights[i]);
  return late;
}

RankExcess overall(const std::vector<LateBlock>& blocks) {
  RankExcess all = blocks.front().excess;
  double rows = 0;
  all.excess_ms = all.sigma_ms = all.z = all.positive = all.blame = all.victim_wait_ms = 0;
  all.category_ms = all.own_ms = all.others_ms = {};
  for (const LateBlock& b : blocks) {
    const auto n = static_cast<double>(b.rows.size());
    rows += n;
    all.excess_ms += n * b.excess.excess_ms;
    all.sigma_ms += n * b.excess.sigma_ms;
    all.z = std::max(all.z, b.excess.z);
    all.positive += n * b.excess.positive;
    all.blame += n * b.excess.blame;
    all.victim_wait_ms += n * b.excess.victim_wait_ms;
    for (size_t c = 0; c < kCategoryCount; ++c) {
      all.category_ms[c] += static_cast<float>(n * b.excess.category_ms[c]);
      all.own_ms[c] += static_cast<float>(n * b.excess.own_ms[c]);
      all.others_ms[c] += static_cast<float>(n * b.excess.others_ms[c]);
    }
  }
  for (double* x : {&all.excess_ms, &all.sigma_ms, &all.positive, &all.blame, &all.victim_wait_ms}) *x /= rows;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    all.category_ms[c] /= static_cast<float>(rows);
    all.own_ms[c] /= static_cast<float>(rows);
    all.others_ms[c] /= static_cast<float>(rows);
  }
  return all;
}

Reduction down_to_the_others(const Rows& rows, const std::vector<LateBlock>& blocks, int rank) {
  return [&rows, at = ByRow(blocks), rank](size_t i, const Cell& cell) {
    LedgerMs cut{};
    const RankExcess* e = cell.rank == rank ? at.find(rows.rows[i]) : nullptr;
    for (size_t c = 0; e && c < kCategoryCount; ++c)
      if (is_beyond_noise(*e, c)) cut[c] = e->category_ms[c];
    return cut;
  };
}

Reduction as_the_others(const Rows& rows, const std::vector<LateBlock>& blocks, int rank) {
  return [&rows, at = ByRow(blocks), rank, others = std::vector<double>()](size_t i, const Cell& cell) mutable {
    LedgerMs cut{};
    const RankExcess* e = cell.rank == rank ? at.find(rows.rows[i]) : nullptr;
    for (size_t c = 0; e && c < kCategoryCount; ++c) {
      if (!is_beyond_noise(*e, c)) continue;
      others.clear();
      for (const Cell& other : rows.rows[i]->cells)
        if (other.rank != rank) others.push_back(other.ms[c]);
      if (!others.empty()) cut[c] = std::max(0.0f, cell.ms[c] - static_cast<float>(median(others)));
    }
    return cut;
  };
}

int first_late_bucket(const LateBlock& block, int rank, double least_ms) {
  std::vector<double> lead;
  for (size_t k = 0; k < kMostBuckets; ++k) {
    std::vector<double> d;
    for (const StepRow* row : block.rows.rows) {
      const Cell* own = row->find(rank);
      if (!own || own->bucket_ms.size() <= k) continue;
      std::vector<double> others;  // a rank may have issued fewer buckets
      for (const Cell& other : row->cells)
        if (&other != own && other.bucket_ms.size() > k) others.push_back(other.bucket_ms[k]);
      if (!others.empty()) d.push_back(own->bucket_ms[k] - median(std::move(others)));
    }
    if (d.size() < kFewSteps) break;
    lead.push_back(median(std::move(d)));
  }
  for (size_t k = 0; k < lead.size(); ++k)
    if (lead[k] > least_ms) return lead.size() > 1 ? static_cast<int>(k) : -1;
  return -1;
}

double factor_of(const std::vector<LateBlock>& blocks, int rank, double Cell::* figure) {
  std::vector<double> own, others;
  for (const LateBlock& block : blocks)
    for (const StepRow* row : block.rows.rows) {
      const Cell* cell = row->find(rank);
      if (!cell || row->cells.size() < 2) continue;
      std::vector<double> of_others;
      for (const Cell& other : row->cells)
        if (&other != cell) of_others.push_back(other.*figure);
      own.push_back(cell->*figure);
      others.push_back(median(std::move(of_others)));
    }
  if (own.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double mine = median(std::move(own)), theirs = median(std::move(others));
  return mine > 0 && theirs > 0 ? mine / theirs : std::numeric_limits<double>::quiet_NaN();
}

double work_factor(const std::vector<LateBlock>& blocks, int rank) {
  for (const BatchSize& batch : kBatchSizes)
    if (const double factor = factor_of(blocks, rank, batch.size); !std::isnan(factor)) return factor;
  return std::numeric_limits<double>::quiet_NaN();
}

double launching_share(const std::vector<LateBlock>& blocks, int rank, Category phase) {
  double longer_ms = 0, launching_ms = 0;
  const size_t c = index(phase);
  for (const LateBlock& b : blocks)
    for (const StepRow* row : b.rows.rows) {
      const Cell* own = row->find(rank);
      if (!own || !own->gpu) continue;
      std::vector<double> ms, launching;
      for (const Cell& other : row->cells)
        if (&other != own && other.gpu) ms.push_back(other.ms[c]), launching.push_back(other.launching_ms[c]);
      if (ms.empty()) continue;
      longer_ms += own->ms[c] - median(std::move(ms));
      launching_ms += own->launching_ms[c] - median(std::move(launching));
    }
  return longer_ms > 0 ? launching_ms / longer_ms : 0;
}

}  // namespace stepscope
