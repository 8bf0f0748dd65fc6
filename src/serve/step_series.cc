#include "serve/step_series.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "store/run_reader.h"

namespace stepscope {
namespace {

using store::MetricColumns;
using store::Segment;

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

// One kept step: `steps` from its own on are the same to us.
struct ScanRow {
  int64_t step = 0, steps = 1;
  uint32_t tags = 0;
  float wall_ms = 0;           // longest of the ranks
  std::vector<float> figures;  // by rank of the scan, NaN = not seen
};

bool is_of_own_time(size_t metric) {
  return metric == store::kRest || (metric < kCategoryCount && !is_of_stalls(static_cast<Category>(metric)));
}

// Adds the values of some metrics cell by cell, in ms.
std::vector<float> summed(const Segment& s, bool (*counts)(size_t)) {
  std::vector<float> out(size_t{s.head.rows} * s.head.ranks, 0);
  for (size_t m = 0; m <= store::kRest; ++m) {
    const std::vector<int64_t>& column = s.cells[m];
    if (!counts(m) || column.empty()) continue;
    const float unit = static_cast<float>(store::metric_info(m).scale * 1e-6 * s.head.quantum_ns);
    for (size_t i = 0; i < std::min(out.size(), column.size()); ++i) out[i] += static_cast<float>(column[i]) * unit;
  }
  return out;
}

std::vector<float> figures_of(const Segment& s, Measure measure, const std::vector<float>& walls) {
  switch (measure) {
    case Measure::kOwn: return summed(s, is_of_own_time);
    case Measure::kWait:
    case Measure::kInput: {
      auto out = measure == Measure::kWait ? summed(s, [](size_t m) { return m == index(Category::kStragglerWait); })
                                           : summed(s, [](size_t m) { return m == index(Category::kInputWait); });
      for (size_t i = 0; i < out.size(); ++i) out[i] = walls[i] > 0 ? out[i] / walls[i] : 0;
      return out;
    }
    case Measure::kMemory: {
      std::vector<float> out(walls.size(), kNone);
      for (const store::Figure figure : {store::Figure::allocated_bytes, store::Figure::peak_bytes}) {
        const std::vector<int64_t>& column = s.cells[store::metric_of(figure)];
        for (size_t i = 0; i < std::min(out.size(), column.size()); ++i) {
          const auto bytes = store::figure_of(store::metric_of(figure), column[i], s.head.quantum_ns);
          if (bytes) out[i] = std::fmax(out[i], static_cast<float>(*bytes));
        }
      }
      return out;
    }
  }
  return {};
}

// Hands over the kept steps between two, in order. `ranks`: of the figures; empty = no figures are wanted.
class Scan {
 public:
  Scan(const RunState& run, std::vector<int> ranks, Measure measure)
      : run_(run), ranks_(std::move(ranks)), measure_(measure) {
    for (size_t i = 0; i < ranks_.size(); ++i) place_[ranks_[i]] = i;
  }

  using Take = std::function<void(const ScanRow&)>;

  Status go(int64_t from, int64_t to, const Take& take) {
    int64_t next = from;
    // The newest steps of a run that goes on stand in the snapshot: a browser that follows it costs no reading of
    // files.
    const auto& recent = run_.snapshot->recent;
    const bool all_there = run_.going_on && measure_ == Measure::kOwn && !recent.empty() &&
                           static_cast<int64_t>(recent.front().step) <= from;
    if (!run_.run_file.empty() && !all_there) {
      auto reader = RunReader::open(run_.run_file);
      if (!reader) return std::unexpected(reader.error());
      if (Status status = walk(*reader, from, to, take, next); !status) return status;
    }
    tail(next, to, take);
    return {};
  }

 private:
  Status walk(RunReader& reader, int64_t from, int64_t to, const Take& take, int64_t& next) {
    SegmentWalk walk;
    walk.step = static_cast<uint64_t>(from);  // of attempt 0
    for (;;) {
      skip(walk, from, to);
      auto part = reader.next_segment(walk);
      if (!part) return std::unexpected(part.error());
      if (!*part) return {};
      rows((*part)->segment, from, to, take, next);
    }
  }

  // What lies outside need not be read.
  static void skip(SegmentWalk& walk, int64_t from, int64_t to) {
    const auto outside = [&](const store::SegmentHead& head) {
      return static_cast<int64_t>(head.step1) < from || static_cast<int64_t>(head.step0) > to;
    };
    while (walk.at < walk.heads.size() && outside(walk.heads[walk.at])) ++walk.at;
  }

  void rows(const Segment& s, int64_t from, int64_t to, const Take& take, int64_t& next) {
    const size_t count = std::min<size_t>(s.head.rows, s.step.size());
    const std::vector<float> walls = summed(s, [](size_t m) { return m <= store::kRest; });
    const std::vector<float> figures = ranks_.empty() ? std::vector<float>{} : figures_of(s, measure_, walls);
    const std::vector<int64_t>& absent = s.cells[store::kAbsent];
    const std::vector<int64_t>& tags = s.cells[store::metric_of(store::Figure::tags)];
    ScanRow row;
    for (size_t r = 0; r < count; ++r) {
      row.step = s.step[r];
      const int64_t after = r + 1 < count ? s.step[r + 1] : static_cast<int64_t>(s.head.step1) + 1;
      row.steps = std::clamp<int64_t>(after - row.step, 1, int64_t{1} << std::min(s.head.level, 30u));
      if (row.step + row.steps <= from || row.step > to) continue;
      row.tags = 0, row.wall_ms = 0;
      row.figures.assign(ranks_.size(), kNone);
      for (uint32_t column = 0; column < s.head.ranks; ++column) {
        const size_t i = column * size_t{s.head.rows} + r;
        if (!absent.empty() && absent[i] != 0) continue;
        row.wall_ms = std::max(row.wall_ms, walls[i]);
        if (!tags.empty()) row.tags |= static_cast<uint32_t>(tags[i]);
        if (figures.empty()) continue;
        if (const auto found = place_.find(s.rank_of(column)); found != place_.end())
          row.figures[found->second] = figures[i];
      }
      take(row);
      next = std::max(next, row.step + row.steps);
    }
  }

  // What the file does not have yet.
  void tail(int64_t next, int64_t to, const Take& take) {
    const Snapshot& s = *run_.snapshot;
    for (const StepPoint& point : s.recent) {
      const auto step = static_cast<int64_t>(point.step);
      if (step < next || step > to) continue;
      ScanRow row{.step = step, .tags = point.tags, .wall_ms = static_cast<float>(point.wall_ms)};
      row.figures.assign(ranks_.size(), kNone);
      for (size_t i = 0; measure_ == Measure::kOwn && i < std::min(point.rank_ms.size(), s.ranks.size()); ++i)
        if (const auto found = place_.find(s.ranks[i].rank); found != place_.end())
          row.figures[found->second] = point.rank_ms[i];
      take(row);
    }
  }

  const RunState& run_;
  std::vector<int> ranks_;
  std::map<int, size_t> place_;
  Measure measure_;
};

// First and last step that there is, in the file or in the snapshot.
Result<std::pair<int64_t, int64_t>> extent_of(const RunState& run) {
  int64_t first = std::numeric_limits<int64_t>::max(), last = -1;
  const auto add = [&](int64_t a, int64_t b) { first = std::min(first, a), last = std::max(last, b); };
  if (!run.run_file.empty()) {
    auto reader = RunReader::open(run.run_file);
    if (!reader) return std::unexpected(reader.error());
    SegmentWalk walk;
    walk.attempt = std::numeric_limits<int32_t>::max();  // no segment is read, their heads alone
    auto part = reader->next_segment(walk);
    if (!part) return std::unexpected(part.error());
    for (const store::SegmentHead& head : walk.heads)
      add(static_cast<int64_t>(std::min<uint64_t>(head.step0, kMaxStep)),
          static_cast<int64_t>(std::min<uint64_t>(head.step1, kMaxStep)));
  }
  const auto& recent = run.snapshot->recent;
  if (!recent.empty())
    add(static_cast<int64_t>(std::min<uint64_t>(recent.front().step, kMaxStep)),
        static_cast<int64_t>(std::min<uint64_t>(recent.back().step, kMaxStep)));
  return std::pair(last < 0 ? 0 : first, last);
}

// Calls `at` for every bin that a row covers.
template <class At>
void for_bins(const StepRange& range, const ScanRow& row, At at) {
  const int64_t first = std::max(row.step, range.from), last = std::min(row.step + row.steps - 1, range.to);
  if (last < first) return;
  for (int64_t bin = (first - range.from) / range.per_bin; bin <= (last - range.from) / range.per_bin; ++bin)
    at(static_cast<size_t>(bin));
}

// The lower one: where half of the ranks are slow, the other half is the measure.
float lower_median_of(std::vector<float>& values) {
  if (values.empty()) return kNone;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

uint8_t level_of(float value, const HeatScale& scale) {
  if (std::isnan(value)) return 0;
  const double position = scale.ratio
                              ? std::log2(std::max(double{value}, 1e-9) / scale.low) / std::log2(scale.high / scale.low)
                              : (double{value} - scale.low) / (scale.high - scale.low);
  return static_cast<uint8_t>(1 + std::lround(254 * std::clamp(position, 0.0, 1.0)));
}

// Where capacities are known their largest, else the largest value in view.
HeatScale memory_scale(const Snapshot& s, const std::vector<float>& values) {
  double most = 0;
  for (const DeviceMemoryRank& rank : s.memory) most = std::max(most, rank.capacity_bytes.value_or(0));
  for (const float value : values)
    if (most == 0 || value > most) most = std::max(most, std::isnan(value) ? 0.0 : double{value});
  return {.ratio = false, .low = 0, .high = most > 0 ? most : 1};
}

}  // namespace

StepRange range_of(const Call& call, int64_t first, int64_t last, uint32_t bins) {
  StepRange range{.first = first, .last = last};
  if (last < first) return range;
  range.from = std::max(call.from, first);
  range.to = call.to < 0 ? last : std::min(call.to, last);
  const int64_t steps = range.to - range.from + 1;
  if (steps > 0) range.per_bin = (steps + bins - 1) / std::max<int64_t>(bins, 1);
  return range;
}

Result<StepBins> step_bins(const RunState& run, const Call& call) {
  const auto extent = extent_of(run);
  if (!extent) return std::unexpected(extent.error());
  StepBins out{.range = range_of(call, extent->first, extent->second, call.bins)};
  const size_t bins = out.range.bins();
  out.longest_ms.assign(bins, kNone), out.shortest_ms.assign(bins, kNone), out.tags.assign(bins, 0);
  if (bins == 0) return out;
  Scan scan(run, {}, Measure::kOwn);
  const Status status = scan.go(out.range.from, out.range.to, [&](const ScanRow& row) {
    for_bins(out.range, row, [&](size_t bin) {
      out.longest_ms[bin] = std::fmax(out.longest_ms[bin], row.wall_ms);
      out.shortest_ms[bin] = std::fmin(out.shortest_ms[bin], row.wall_ms);
      out.tags[bin] |= row.tags;
    });
  });
  if (!status) return std::unexpected(status.error());
  return out;
}

Result<Heat> heat_of(const RunState& run, const Call& call) {
  const auto extent = extent_of(run);
  if (!extent) return std::unexpected(extent.error());
  Heat out;
  for (const RankStat& rank : run.snapshot->ranks) out.ranks.push_back(rank.rank);
  if (out.ranks.empty()) return out;
  const auto room = static_cast<uint32_t>(std::max<size_t>(kMaxHeatCells / out.ranks.size(), 1));
  out.range = range_of(call, extent->first, extent->second, std::min(call.bins, room));
  const size_t bins = out.range.bins(), ranks = out.ranks.size();
  const bool own = call.measure == Measure::kOwn;
  std::vector<float> most(bins * ranks, kNone), present;
  std::vector<uint32_t> rows(bins, 0);
  out.reference_ms.assign(own ? bins : 0, 0);
  Scan scan(run, out.ranks, call.measure);
  const Status status = scan.go(out.range.from, out.range.to, [&](const ScanRow& row) {
    float median = 1;
    if (own) {
      present.clear();
      for (const float figure : row.figures)
        if (!std::isnan(figure)) present.push_back(figure);
      median = lower_median_of(present);
      if (!(median > 0)) return;
    }
    for_bins(out.range, row, [&](size_t bin) {
      for (size_t r = 0; r < ranks; ++r)
        most[r * bins + bin] = std::fmax(most[r * bins + bin], row.figures[r] / median);
      if (own) out.reference_ms[bin] += median;
      ++rows[bin];
    });
  });
  if (!status) return std::unexpected(status.error());
  for (size_t bin = 0; bin < out.reference_ms.size(); ++bin)
    out.reference_ms[bin] = rows[bin] > 0 ? out.reference_ms[bin] / static_cast<float>(rows[bin]) : kNone;
  if (!own)
    out.scale = call.measure == Measure::kMemory ? memory_scale(*run.snapshot, most)
                                                 : HeatScale{.ratio = false, .low = 0, .high = 1};
  out.levels.reserve(most.size());
  for (const float value : most) out.levels.push_back(level_of(value, out.scale));
  return out;
}

Result<std::optional<StoredRow>> row_of(const RunState& run, int64_t step) {
  std::optional<StoredRow> out;
  if (run.run_file.empty()) return out;
  auto reader = RunReader::open(run.run_file);
  if (!reader) return std::unexpected(reader.error());
  const auto number = static_cast<uint64_t>(step);
  const Status status = reader->for_each_row({.from_step = number, .to_step = number}, [&](const StoredRow& row) {
    out = row;  // of the newest attempt that has it
    return true;
  });
  if (!status) return std::unexpected(status.error());
  return out;
}

}  // namespace stepscope
