#include "store/metric.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace stepscope::store {
namespace {

constexpr uint8_t kCoarse = 32;  // quanta: of what stands beside the main ledger
constexpr uint8_t kReadingDrop = 8, kSizeDrop = 4;
constexpr double kMaxMs = 1e12;

constexpr std::array<std::string_view, kCategoryCount> kHostNames = {
    "host_input_wait",  "host_h2d",           "host_forward",        "host_backward",
    "host_optimizer",   "host_comm_transfer", "host_straggler_wait", "host_host_pause",
    "host_compile",     "host_checkpoint",    "host_validation",     "host_logging",
    "host_epoch_start", "host_user_code",     "host_startup",        "host_teardown",
    "host_hang",        "host_unattributed",  "host_unresolved"};

constexpr std::array<std::string_view, kLaunchPhases.size()> kLaunchingNames = {
    "launching_forward", "launching_backward", "launching_optimizer"};

double finite(double value, double limit) { return std::isfinite(value) ? std::clamp(value, -limit, limit) : 0; }
int64_t quanta(double ms, double per_ms) { return std::llround(finite(ms, kMaxMs) * per_ms); }
float to_ms(int64_t quanta, double quantum_ms) { return static_cast<float>(static_cast<double>(quanta) * quantum_ms); }

uint32_t to_count(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max()));
}
int32_t to_int(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, -1, std::numeric_limits<int32_t>::max()));
}

// A float without its lowest bits; 0 stays free for "not known".
int64_t fine(double value, unsigned drop) {
  const int64_t ordered = float_to_ordered(value, drop);
  return ordered >= 0 ? ordered + 1 : ordered;
}
double of_fine(int64_t value, unsigned drop) { return ordered_to_float(value > 0 ? value - 1 : value, drop); }

// How each kind of figure is kept. put: its integer, 0 where it is not known; take: the figure again. `per_ms`,
// `quantum_ms`: the segment's quantum.
template <class Kind>
struct Coding;

template <>
struct Coding<field::Time> {
  static constexpr MetricInfo info(uint8_t id, std::string_view name, std::string_view unit, Thinning thinning) {
    return {id, name, unit, MetricKind::kTime, thinning};
  }
  static int64_t put(float ms, double per_ms) { return quanta(ms, per_ms); }
  static float take(int64_t value, double quantum_ms) { return to_ms(value, quantum_ms); }
};

template <uint8_t kScale>
struct MeasuredTimeCoding {
  static constexpr MetricInfo info(uint8_t id, std::string_view name, std::string_view unit, Thinning thinning) {
    return {id, name, unit, MetricKind::kTime, thinning, kScale, 0, true};
  }
  static int64_t put(float ms, double per_ms) { return ms >= 0 ? quanta(ms, per_ms / kScale) + 1 : 0; }
  static float take(int64_t value, double quantum_ms) {
    return value <= 0 ? field::MeasuredTime::kFigure : to_ms(value - 1, kScale * quantum_ms);
  }
};
template <>
struct Coding<field::MeasuredTime> : MeasuredTimeCoding<1> {};
template <>
struct Coding<field::CoarseTime> : MeasuredTimeCoding<kCoarse> {};

struct PlainCoding {
  static constexpr MetricInfo info(uint8_t id, std::string_view name, std::string_view unit, Thinning thinning) {
    return {id, name, unit, MetricKind::kCount, thinning};
  }
};
template <>
struct Coding<field::Count> : PlainCoding {
  static int64_t put(uint32_t count, double) { return count; }
  static uint32_t take(int64_t value, double) { return to_count(value); }
};
template <>
struct Coding<field::Total> : PlainCoding {
  static int64_t put(uint64_t count, double) { return static_cast<int64_t>(count); }
  static uint64_t take(int64_t value, double) { return static_cast<uint64_t>(value); }
};
template <>
struct Coding<field::Hash> : Coding<field::Total> {};

template <>
struct Coding<field::Number> {
  static constexpr MetricInfo info(uint8_t id, std::string_view name, std::string_view unit, Thinning thinning) {
    return {id, name, unit, MetricKind::kCount, thinning, 1, 0, true};
  }
  static int64_t put(int32_t number, double) { return int64_t{number} + 1; }
  static int32_t take(int64_t value, double) { return value <= 0 ? field::Number::kFigure : to_int(value - 1); }
};

template <>
struct Coding<field::Amount> {
  static constexpr MetricInfo info(uint8_t id, std::string_view name, std::string_view unit, Thinning thinning) {
    return {id, name, unit, MetricKind::kReal, thinning};
  }
  static int64_t put(double amount, double) { return float_to_ordered(amount, 0); }
  static double take(int64_t value, double) { return ordered_to_float(value, 0); }
};

template <uint8_t kDrop>
struct FineCoding {
  static constexpr MetricInfo info(uint8_t id, std::string_view name, std::string_view unit, Thinning thinning) {
    return {id, name, unit, MetricKind::kFine, thinning, 1, kDrop, true};
  }
};
template <>
struct Coding<field::Reading> : FineCoding<kReadingDrop> {
  static int64_t put(std::optional<double> value, double) { return value ? fine(*value, kReadingDrop) : 0; }
  static std::optional<double> take(int64_t value, double) {
    return value == 0 ? field::Reading::kFigure : of_fine(value, kReadingDrop);
  }
};
template <>
struct Coding<field::Size> : FineCoding<kSizeDrop> {
  static int64_t put(double bytes, double) { return bytes >= 0 ? fine(bytes, kSizeDrop) : 0; }
  static double take(int64_t value, double) { return value == 0 ? field::Size::kFigure : of_fine(value, kSizeDrop); }
};
template <>
struct Coding<field::SizeOnceRead> : Coding<field::Size> {};

constexpr std::array<MetricInfo, kMetricCount> kMetrics = [] {
  constexpr auto kTime = MetricKind::kTime;
  constexpr auto kSummed = Thinning::kSummed, kKept = Thinning::kKept;
  std::array<MetricInfo, kMetricCount> all{};
  for (size_t c = 0; c < kCategoryCount; ++c)
    all[c] = {static_cast<uint8_t>(16 + c), kCategoryNames[c], "ms", kTime, kSummed};
  all[kRest] = {10, "rest", "ms", kTime, kSummed};
  all[kAbsent] = {8, "absent", "", MetricKind::kCount, kSummed};
  all[kOutside] = {51, "transfer_outside", "ms", kTime};
  all[kWaitedFor] = {49, "waited_for", "rank", MetricKind::kCount, kKept, 1, 0, true};
  all[kPeak] = {50, "peak", "ms", kTime};
  all[kGpu] = {96, "gpu", "", MetricKind::kCount, kSummed};
  for (size_t i = 0; i < kLaunchPhases.size(); ++i)
    all[kLaunching + i] = {static_cast<uint8_t>(99 + i), kLaunchingNames[i], "ms", kTime, kKept, kCoarse};
  for (size_t c = 0; c < kCategoryCount; ++c)
    all[kHost + c] = {static_cast<uint8_t>(128 + c), kHostNames[c], "ms", kTime, kSummed, kCoarse};
  all[kHostRest] = {11, "host_rest", "ms", kTime, kSummed, kCoarse};
#define FIGURE(kind, figure, unit, id, name, thinning) \
  all[metric_of(Figure::figure)] = Coding<field::kind>::info(id, name, unit, thinning);
#include "align/step_fields.def"
  return all;
}();

constexpr bool ids_differ() {
  bool taken[256] = {true, true, true, true};  // 0, kStepId, kEndId, kRanksId
  for (const MetricInfo& metric : kMetrics)
    if (std::exchange(taken[metric.id], true)) return false;
  return true;
}
static_assert(ids_differ(), "two columns of the run file have one id");

// A ledger from metric `first` on, what is missing to the wall time in `rest`.
void put_ledger(MetricValues& values, size_t first, size_t rest, const LedgerMs& ms, float wall_ms, double per_ms) {
  double sum_ms = 0;
  int64_t sum = 0;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (ms[c] == 0) continue;
    sum_ms += finite(ms[c], kMaxMs);
    const int64_t next = std::llround(sum_ms * per_ms);
    values[first + c] = next - sum;
    sum = next;
  }
  // What floats lose in adding up is no rest.
  const double missing = (finite(wall_ms, kMaxMs) - sum_ms) * per_ms;
  if (std::abs(missing) > 0.1) values[rest] = quanta(wall_ms, per_ms) - sum;
}

float take_ledger(const MetricValues& values, size_t first, size_t rest, LedgerMs& ms, double unit_ms) {
  double wall = static_cast<double>(values[rest]);
  for (size_t c = 0; c < kCategoryCount; ++c) {
    ms[c] = static_cast<float>(static_cast<double>(values[first + c]) * unit_ms);
    wall += static_cast<double>(values[first + c]);
  }
  return static_cast<float>(wall * unit_ms);
}

}  // namespace

const MetricInfo& metric_info(size_t metric) { return kMetrics[metric]; }

size_t metric_of_id(int64_t id) {
  for (size_t m = 0; m < kMetricCount; ++m)
    if (kMetrics[m].id == id) return m;
  return kMetricCount;
}

static void take_stalls(const MetricValues& values, Cell& cell, double quantum_ms) {
  if (cell.stall_ms <= 0) return;
  const float unresolved_ms = std::clamp(cell.ms[index(Category::kUnresolved)], 0.0f, cell.stall_ms);
  // Waiting beside nothing but unresolved time was in the same sync points; else which of the two it belongs to is not
  // kept.
  const bool half_seen = unresolved_ms > 0 && cell.ms[index(Category::kCommTransfer)] <= 0;
  if (half_seen) return cell.stalls.push_back({0, 0, cell.stall_ms, 0, Category::kBackward, unresolved_ms});
  const float seen_ms = cell.stall_ms - unresolved_ms;
  const float outside_ms = std::clamp(to_ms(values[kOutside], quantum_ms), 0.0f, seen_ms);
  const float inside_ms = seen_ms - outside_ms;
  if (inside_ms > 0)
    cell.stalls.push_back({kSeenGroup, 0, inside_ms, std::max(0.0f, inside_ms - cell.wait_ms), Category::kBackward});
  if (outside_ms > 0) cell.stalls.push_back({kSeenGroup, 1, outside_ms, outside_ms, Category::kOptimizer});
  if (unresolved_ms > 0) cell.stalls.push_back({kUnseenGroup, 0, unresolved_ms, 0, Category::kBackward, unresolved_ms});
}

// The host's ledger: kept beside the GPU's, else the main one with its waits not split.
static void take_host(const MetricValues& values, Cell& cell, double quantum_ms) {
  if (cell.gpu) {
    for (size_t i = 0; i < kLaunchPhases.size(); ++i)
      cell.launching_ms[index(kLaunchPhases[i])] = to_ms(values[kLaunching + i], quantum_ms * kCoarse);
    cell.host_wall_ms = take_ledger(values, kHost, kHostRest, cell.host_ms, quantum_ms * kCoarse);
    return;
  }
  cell.host_wall_ms = cell.wall_ms;
  cell.host_ms = cell.ms;
  cell.host_ms[index(Category::kCommTransfer)] = cell.stall_ms;
  cell.host_ms[index(Category::kStragglerWait)] = cell.host_ms[index(Category::kUnresolved)] = 0;
}

// What is no figure is carried by hand, here and in restore().
static_assert(sizeof(Cell) == sizeof(CellFigures) + sizeof(int64_t) + sizeof(int32_t) + 5 * sizeof(float) +
                                  sizeof(int32_t) /* gpu */ + 3 * sizeof(LedgerMs) + 4 * sizeof(std::vector<float>),
              "a new member of Cell: make it a row of align/step_fields.def, or say what the run file keeps of it");

FlatCell to_flat(const Cell& cell) {
  FlatCell flat;
  static_cast<CellFigures&>(flat) = cell;
  flat.present = true;
  flat.ms = cell.ms, flat.wall_ms = cell.wall_ms;
  flat.gpu = cell.gpu, flat.host_ms = cell.host_ms, flat.host_wall_ms = cell.host_wall_ms;
  flat.launching_ms = cell.launching_ms;
  for (const CellStall& stall : cell.stalls)
    if (stall.phase != Category::kBackward) flat.outside_ms += stall.transfer_ms;
  return flat;
}

MetricValues quantise(const FlatCell& cell, uint32_t quantum_ns) {
  MetricValues out{};
  if (!cell.present) {
    out[kAbsent] = 1;
    return out;
  }
  const double per_ms = 1e6 / quantum_ns;
  put_ledger(out, 0, kRest, cell.ms, cell.wall_ms, per_ms);
  if (cell.gpu) {
    out[kGpu] = 1;
    for (size_t i = 0; i < kLaunchPhases.size(); ++i)
      out[kLaunching + i] = quanta(cell.launching_ms[index(kLaunchPhases[i])], per_ms / kCoarse);
    put_ledger(out, kHost, kHostRest, cell.host_ms, cell.host_wall_ms, per_ms / kCoarse);
  }
  out[kOutside] = quanta(cell.outside_ms, per_ms);
  out[kWaitedFor] = int64_t{cell.waited_for} + 1;
#define FIGURE(kind, figure, ...) out[metric_of(Figure::figure)] = Coding<field::kind>::put(cell.figure, per_ms);
#include "align/step_fields.def"
  return out;
}

bool is_absent(const MetricValues& values) { return values[kAbsent] != 0; }

Cell restore(int rank, const MetricValues& values, uint32_t quantum_ns) {
  Cell cell;
  cell.rank = rank;
  const double quantum_ms = quantum_ns * 1e-6;
  cell.wall_ms = take_ledger(values, 0, kRest, cell.ms, quantum_ms);
  cell.gpu = values[kGpu] != 0;
  cell.wait_ms = cell.ms[index(Category::kStragglerWait)];
  cell.stall_ms = cell.wait_ms + cell.ms[index(Category::kCommTransfer)] + cell.ms[index(Category::kUnresolved)];
  take_stalls(values, cell, quantum_ms);
#define FIGURE(kind, figure, ...) \
  cell.figure = Coding<field::kind>::take(values[metric_of(Figure::figure)], quantum_ms);
#include "align/step_fields.def"
  take_host(values, cell, quantum_ms);
  return cell;
}

int32_t waited_for(const MetricValues& values) { return values[kWaitedFor] <= 0 ? -1 : to_int(values[kWaitedFor] - 1); }

std::optional<double> figure_of(size_t metric, int64_t value, uint32_t quantum_ns) {
  const MetricInfo& info = kMetrics[metric];
  if (info.kind == MetricKind::kFine) return value == 0 ? std::nullopt : std::optional(of_fine(value, info.drop));
  if (!info.from_one) return summand(metric, value, quantum_ns);
  return value <= 0 ? std::nullopt : std::optional(summand(metric, value - 1, quantum_ns));
}

double summand(size_t metric, int64_t value, uint32_t quantum_ns) {
  switch (kMetrics[metric].kind) {
    case MetricKind::kTime: return static_cast<double>(value) * kMetrics[metric].scale * quantum_ns * 1e-6;
    case MetricKind::kReal: return ordered_to_float(value, 0);
    default: return static_cast<double>(value);
  }
}

uint32_t quantum_for(double wall_ms) {
  const double ns = std::clamp(finite(wall_ms, 1e9) * 1e6 / 16384, 8.0, 131072.0);
  return std::bit_floor(static_cast<uint32_t>(ns));
}

int64_t float_to_ordered(double value, unsigned drop) {
  constexpr uint32_t kInfinity = 0x7f800000;
  constexpr double kMax = std::numeric_limits<float>::max();
  if (std::isfinite(value)) value = std::clamp(value, -kMax, kMax);
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > kInfinity) magnitude = kInfinity | 0x400000;  // one kind of not-a-number
  if (drop > 0 && magnitude < kInfinity) {
    magnitude = (magnitude + (1u << (drop - 1))) >> drop;
    if (magnitude >= kInfinity >> drop) magnitude = (kInfinity >> drop) - 1;
  } else {
    magnitude >>= drop;
  }
  return bits >> 31 ? -static_cast<int64_t>(magnitude) - 1 : static_cast<int64_t>(magnitude);
}

double ordered_to_float(int64_t value, unsigned drop) {
  const bool negative = value < 0;
  const auto magnitude = static_cast<uint64_t>(negative ? -(value + 1) : value);
  const auto bits = static_cast<uint32_t>(std::min<uint64_t>(magnitude, 0x7fffffff >> drop) << drop);
  return std::bit_cast<float>(bits | (negative ? 0x80000000u : 0));
}

}  // namespace stepscope::store
