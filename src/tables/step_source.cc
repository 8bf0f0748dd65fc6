#include "tables/step_source.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "store/metric.h"

namespace stepscope::tables {

using store::Figure;
using store::kMetricCount;
using store::metric_info;
using store::metric_of;
using store::MetricInfo;
using store::MetricKind;
using store::Segment;

namespace {

// What a row is of; then the metrics.
enum Place : size_t { kAttempt, kStep, kStride, kRank, kAt, kWall, kPlaces };

// A quantity that the name alone does not tell.
bool is_measure(std::string_view unit) { return unit == "ms" || unit == "bytes" || unit == "rank"; }

std::string name_with_unit(const MetricInfo& metric) {
  std::string name(metric.name);
  if (is_measure(metric.unit) && !name.ends_with(metric.unit)) {
    name += '_';
    name += metric.unit;
  }
  return name;
}

template <class Names>
std::string bit_list(const Names& names, size_t first_bit) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(uint64_t{1} << (first_bit + i));
    text += ' ';
    text += names[i];
  }
  return text;
}

// The host's own ledger stands beside the GPU's only.
bool is_beside_gpu(size_t metric) {
  return (metric >= store::kLaunching && metric <= store::kLaunchingLast) ||
         (metric >= store::kHost && metric <= store::kHostRest);
}

template <class Kind>
constexpr bool is_hash = std::is_same_v<Kind, field::Hash>;

ColumnType type_of(size_t metric) {
#define FIGURE(kind, figure, ...) \
  if (is_hash<field::kind> && metric == metric_of(Figure::figure)) return ColumnType::kUint64;
#include "align/step_fields.def"
  if (metric == store::kGpu) return ColumnType::kBool;
  return metric_info(metric).kind == MetricKind::kCount ? ColumnType::kInt64 : ColumnType::kReal;
}

Field field_of(size_t metric) {
  const MetricInfo& info = metric_info(metric);
  Field field{name_with_unit(info), std::string(info.unit), type_of(metric), false, {}, nullptr};
  field.nullable = info.from_one || is_beside_gpu(metric);
  field.notes.emplace_back("metric", std::to_string(info.id));
  if (metric == metric_of(Figure::tags)) field.notes.emplace_back("bits", bit_list(store::kTagNames, 1));
  if (metric == metric_of(Figure::host_bound)) field.notes.emplace_back("bits", bit_list(kCategoryNames, 0));
  return field;
}

// Rows are of ranks that were seen: `absent` is 0 in all of them.
std::vector<size_t> metrics_shown() {
  std::vector<size_t> out;
  for (size_t m = 0; m < kMetricCount; ++m)
    if (m != store::kAbsent) out.push_back(m);
  return out;
}

// Cells of a segment in the order of step and rank; positions in its columns.
struct Cells {
  std::vector<uint32_t> at, row;
  std::vector<int32_t> rank;
  size_t size() const { return at.size(); }
};

Cells cells_of(const SegmentPart& part) {
  const Segment& s = part.segment;
  const std::vector<int64_t>& absent = s.cells[store::kAbsent];
  Cells out;
  for (uint32_t i = 0; i < s.head.rows; ++i) {
    const auto step = static_cast<uint64_t>(s.step[i]);
    if (step < part.from_step || step > part.to_step) continue;
    for (uint32_t column = 0; column < s.head.ranks; ++column) {
      const uint32_t at = column * s.head.rows + i;
      if (!absent.empty() && absent[at] != 0) continue;
      out.at.push_back(at), out.row.push_back(i), out.rank.push_back(s.rank_of(column));
    }
  }
  return out;
}

class StepSource : public BatchSource {
 public:
  StepSource(std::shared_ptr<RunReader> reader, int64_t start_ns) : reader_(std::move(reader)), start_ns_(start_ns) {}

  const std::vector<Field>& fields() const override { return fields_; }

  Result<std::optional<Batch>> next() override {
    Batch batch;
    for (const Field& field : fields_) batch.columns.emplace_back(field.type);
    while (batch.rows < kBatchRows) {
      if (at_ == cells_.size()) {
        auto part = reader_->next_segment(walk_);
        if (!part) return std::unexpected(part.error());
        if (!*part) break;
        part_ = std::move(**part);
        cells_ = cells_of(part_), at_ = 0;
        continue;
      }
      const size_t count = std::min(cells_.size() - at_, kBatchRows - batch.rows);
      take(batch, count);
      at_ += count, batch.rows += count;
    }
    if (batch.rows == 0) return std::nullopt;
    return batch;
  }

 private:
  void take(Batch& batch, size_t count);
  void take_place(Batch& batch, size_t count);
  void take_metric(size_t metric, Column& to, size_t count);

  // put(value) for every cell that is taken.
  template <class Put>
  void each(const std::vector<int64_t>& values, size_t count, Put put) {
    for (size_t i = 0; i < count; ++i) put(i, values[cells_.at[at_ + i]]);
  }

  std::shared_ptr<RunReader> reader_;
  int64_t start_ns_;
  std::vector<Field> fields_ = step_fields();
  std::vector<size_t> metrics_ = metrics_shown();
  SegmentWalk walk_;
  SegmentPart part_;
  Cells cells_;
  size_t at_ = 0;
};

void StepSource::take(Batch& batch, size_t count) {
  take_place(batch, count);
  for (size_t i = 0; i < metrics_.size(); ++i) {
    Column& to = batch.columns[kPlaces + i];
    const size_t before = to.size();
    take_metric(metrics_[i], to, count);
    if (!is_beside_gpu(metrics_[i])) continue;
    const std::vector<int64_t>& gpu = part_.segment.cells[store::kGpu];
    for (size_t j = 0; j < count; ++j)
      if (gpu.empty() || gpu[cells_.at[at_ + j]] == 0) to.set_null(before + j);
  }
}

void StepSource::take_place(Batch& batch, size_t count) {
  const Segment& s = part_.segment;
  const double quantum_ms = s.head.quantum_ns * 1e-6;
  const std::span<int64_t> step = batch.columns[kStep].grow_integers(count);
  const std::span<double> at_s = batch.columns[kAt].grow_reals(count), wall = batch.columns[kWall].grow_reals(count);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t row = cells_.row[at_ + i];
    step[i] = s.step[row];
    at_s[i] = static_cast<double>(s.end_us[row]) * 1e-6 - static_cast<double>(start_ns_) * 1e-9;
    batch.columns[kAttempt].put(int64_t{s.head.attempt});
    batch.columns[kStride].put(int64_t{1} << s.head.level);
    batch.columns[kRank].put(int64_t{cells_.rank[at_ + i]});
  }
  for (size_t m = 0; m <= store::kRest; ++m)
    if (!s.cells[m].empty())
      each(s.cells[m], count, [&](size_t i, int64_t value) { wall[i] += static_cast<double>(value); });
  for (double& ms : wall) ms *= quantum_ms;
}

void StepSource::take_metric(size_t metric, Column& to, size_t count) {
  const MetricInfo& info = metric_info(metric);
  const std::vector<int64_t>& values = part_.segment.cells[metric];
  const size_t first = to.size();
  if (values.empty()) {
    to.grow_zeros(count);
    for (size_t i = 0; info.from_one && i < count; ++i) to.set_null(first + i);
    return;
  }
  if (to.type() == ColumnType::kBool)
    return each(values, count, [&](size_t, int64_t value) { to.put(int64_t{value != 0}); });
  if (to.type() == ColumnType::kReal) {
    const std::span<double> out = to.grow_reals(count);
    if (info.kind == MetricKind::kTime && !info.from_one) {
      const double unit_ms = part_.segment.head.quantum_ns * 1e-6 * info.scale;
      return each(values, count, [&](size_t i, int64_t value) { out[i] = static_cast<double>(value) * unit_ms; });
    }
    return each(values, count, [&](size_t i, int64_t value) {
      const auto figure = store::figure_of(metric, value, part_.segment.head.quantum_ns);
      out[i] = figure.value_or(0);
      if (!figure) to.set_null(first + i);
    });
  }
  const std::span<int64_t> out = to.grow_integers(count);
  each(values, count, [&](size_t i, int64_t value) {
    const bool known = !info.from_one || value > 0;
    out[i] = known ? value - info.from_one : 0;
    if (!known) to.set_null(first + i);
  });
}

}  // namespace

std::vector<Field> step_fields() {
  std::vector<Field> out = {{"attempt", "", ColumnType::kInt32}, {"step", "", ColumnType::kInt64},
                            {"stride", "", ColumnType::kInt32},  {"rank", "rank", ColumnType::kInt32},
                            {"at_s", "s", ColumnType::kReal},    {"wall_ms", "ms", ColumnType::kReal}};
  for (const size_t metric : metrics_shown()) out.push_back(field_of(metric));
  return out;
}

std::unique_ptr<BatchSource> step_source(std::shared_ptr<RunReader> reader, int64_t start_ns) {
  return std::make_unique<StepSource>(std::move(reader), start_ns);
}

}  // namespace stepscope::tables
