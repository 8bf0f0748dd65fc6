#include "report/evidence_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "report/figures.h"

namespace stepscope {
namespace {

template <class T, class Get>
EvidenceRow row_from(std::string name, const std::vector<T>& items, Get get) {
  std::vector<std::pair<int, std::optional<double>>> values;
  for (const T& item : items) values.emplace_back(item.rank, get(item));
  return row_over_ranks(std::move(name), values);
}

}  // namespace

EvidenceRow row_over_ranks(std::string name, const std::vector<std::pair<int, std::optional<double>>>& by_rank) {
  EvidenceRow row{.name = std::move(name)};
  std::vector<double> values;
  for (const auto& [rank, value] : by_rank) {
    if (!value || !std::isfinite(*value)) continue;
    values.push_back(*value);
    if (!row.worst || *value > *row.worst) {
      row.worst = value;
      row.worst_rank = rank;
    }
  }
  if (values.empty()) return row;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  row.median = values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  if (values.size() > 1 && *row.median > 0) row.skew_pct = (*row.worst - *row.median) / *row.median * 100;
  return row;
}

std::vector<EvidenceRow> step_time_rows(const Snapshot& s) {
  std::vector<EvidenceRow> rows;
  EvidenceRow step = row_from("step", s.ranks, [](const RankStat& r) { return r.step_ms; });
  if (!step.median) step.median = s.wall_ms.p50;
  if (step.median) rows.push_back(std::move(step));
  for (const PhaseStat& p : ordered_phases(s)) {
    // A phase that reads 0.00 everywhere tells nothing.
    if (p.worst_ms && std::fabs(*p.worst_ms) < 0.005 && p.share.value_or(0) < 0.0005) continue;
    rows.push_back({p.phase, p.median_ms, p.worst_ms, p.worst_rank, p.skew_pct, p.share});
  }
  EvidenceRow stall = row_from("stall", s.ranks, [](const RankStat& r) { return r.stall_ms; });
  double blocked = 0, total = 0;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    total += static_cast<double>(s.job_ledger[i]);
    const auto category = static_cast<Category>(i);
    const bool stalled = category == Category::kCommTransfer || category == Category::kStragglerWait ||
                         category == Category::kUnresolved;
    if (stalled) blocked += static_cast<double>(s.job_ledger[i]);
  }
  if (total > 0) stall.share = blocked / total;
  if (stall.median) rows.push_back(std::move(stall));
  return rows;
}

std::vector<EvidenceRow> memory_rows(const Snapshot& s) {
  std::vector<EvidenceRow> rows;
  // Whole bytes, as they are written: rows of a summary that was read back are then the same.
  const auto whole = [](std::optional<double> bytes) {
    return bytes ? std::optional<double>(std::round(*bytes)) : std::nullopt;
  };
  const auto add = [&](EvidenceRow row) {
    if (row.median) rows.push_back(std::move(row));
  };
  add(row_from("peak_bytes", s.memory, [&](const DeviceMemoryRank& m) { return whole(m.peak_bytes); }));
  add(row_from("reserved_bytes", s.memory, [&](const DeviceMemoryRank& m) { return whole(m.reserved_bytes); }));
  add(row_from("growth_bytes", s.memory, [&](const DeviceMemoryRank& m) -> std::optional<double> {
    if (!m.head_bytes || !m.tail_bytes) return std::nullopt;
    return *whole(m.tail_bytes) - *whole(m.head_bytes);
  }));
  return rows;
}

std::vector<PhaseStat> ordered_phases(const Snapshot& s) {
  std::vector<PhaseStat> phases = s.phases;
  std::stable_sort(phases.begin(), phases.end(), [](const PhaseStat& a, const PhaseStat& b) {
    return std::pair(phase_order(a.phase), std::string_view(a.phase)) <
           std::pair(phase_order(b.phase), std::string_view(b.phase));
  });
  return phases;
}

std::vector<Section> ordered_sections(const Snapshot& s) {
  static constexpr std::array<std::string_view, 4> kNames = {"system", "process", "step_time", "step_memory"};
  std::vector<Section> sections;
  for (std::string_view name : kNames) {
    const auto found =
        std::find_if(s.sections.begin(), s.sections.end(), [&](const Section& x) { return x.name == name; });
    if (found != s.sections.end()) {
      sections.push_back(*found);
    } else {
      sections.push_back({.name = std::string(name), .diagnosis = FindingKind::kNoData, .text = "not measured"});
    }
  }
  std::vector<Section> others;
  for (const Section& x : s.sections) {
    if (std::find(kNames.begin(), kNames.end(), x.name) == kNames.end()) others.push_back(x);
  }
  std::stable_sort(others.begin(), others.end(), [](const Section& a, const Section& b) { return a.name < b.name; });
  sections.insert(sections.end(), others.begin(), others.end());
  return sections;
}

}  // namespace stepscope
