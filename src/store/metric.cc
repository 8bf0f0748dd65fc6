#include "store/metric.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace stepscope::store {
namespace {

constexpr unsigned kFineDrop = 8;
constexpr int64_t kCpuQuanta = 32;  // CPU time is read once per step; its noise needs no finer unit
constexpr double kMaxMs = 1e12;

constexpr std::array<MetricInfo, kMetricCount> kMetrics = [] {
  std::array<MetricInfo, kMetricCount> all{};
  for (size_t c = 0; c < kCategoryCount; ++c) all[c] = {static_cast<uint8_t>(16 + c), kCategoryNames[c], MetricKind::kTime, true};
  all[kRest] = {10, "rest", MetricKind::kTime, true};
  all[kAbsent] = {8, "absent", MetricKind::kCount, true};
  all[kTags] = {9, "tags", MetricKind::kCount, false};
  all[kCaused] = {48, "caused", MetricKind::kTime, true};
  all[kWaitedFor] = {49, "waited_for", MetricKind::kCount, false};
  all[kPeak] = {50, "peak", MetricKind::kTime, false};
  all[kLoss] = {64, "loss", MetricKind::kFine, false};
  all[kSamples] = {65, "samples", MetricKind::kReal, true};
  all[kTokens] = {66, "tokens", MetricKind::kReal, true};
  all[kBytes] = {67, "bytes", MetricKind::kReal, true};
  all[kCpu] = {80, "cpu", MetricKind::kTime, false};
  all[kGc] = {81, "gc", MetricKind::kTime, true};
  all[kSync] = {82, "sync", MetricKind::kTime, true};
  all[kInvoluntary] = {83, "involuntary_switches", MetricKind::kCount, false};
  all[kCollectives] = {84, "collectives", MetricKind::kCount, true};
  all[kSmallCollectives] = {85, "small_collectives", MetricKind::kCount, true};
  all[kFetches] = {86, "fetches", MetricKind::kCount, true};
  all[kFetchReady] = {87, "fetch_ready", MetricKind::kCount, false};
  all[kFetchOutOfOrder] = {88, "fetch_out_of_order", MetricKind::kCount, false};
  all[kFetchInFlight] = {89, "fetch_in_flight", MetricKind::kCount, false};
  all[kSignature] = {90, "signature", MetricKind::kCount, false};
  return all;
}();

double finite(double value, double limit) { return std::isfinite(value) ? std::clamp(value, -limit, limit) : 0; }
int64_t quanta(double ms, double per_ms) { return std::llround(finite(ms, kMaxMs) * per_ms); }
float to_ms(int64_t quanta, uint32_t quantum_ns) { return static_cast<float>(static_cast<double>(quanta) * quantum_ns * 1e-6); }
uint32_t to_count(int64_t value) { return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max())); }
int32_t to_int(int64_t value) { return static_cast<int32_t>(std::clamp<int64_t>(value, -1, std::numeric_limits<int32_t>::max())); }

}  // namespace

const MetricInfo& metric_info(size_t metric) { return kMetrics[metric]; }

size_t metric_of_id(int64_t id) {
  for (size_t m = 0; m < kMetricCount; ++m)
    if (kMetrics[m].id == id) return m;
  return kMetricCount;
}

FlatCell to_flat(const Cell& cell) {
  FlatCell flat;
  flat.present = cell.present;
  if (!cell.present) return flat;
  flat.ms = cell.ms;
  flat.wall_ms = cell.wall_ms, flat.caused_ms = cell.caused_ms, flat.cpu_ms = cell.cpu_ms;
  flat.gc_ms = cell.gc_ms, flat.sync_ms = cell.sync_ms;
  flat.loss = cell.loss, flat.has_loss = cell.has_loss;
  flat.samples = cell.samples, flat.tokens = cell.tokens, flat.bytes = cell.bytes;
  flat.signature = cell.signature;
  flat.tags = cell.tags;
  flat.collectives = cell.collectives, flat.small_collectives = cell.small_collectives;
  flat.fetches = cell.fetches, flat.fetch_ready = cell.fetch_ready;
  flat.fetch_out_of_order = cell.fetch_out_of_order, flat.fetch_in_flight = cell.fetch_in_flight;
  flat.involuntary_switches = cell.involuntary_switches;
  return flat;
}

MetricValues quantise(const FlatCell& cell, uint32_t quantum_ns) {
  MetricValues out{};
  if (!cell.present) {
    out[kAbsent] = 1;
    return out;
  }
  const double per_ms = 1e6 / quantum_ns;
  double sum_ms = 0;
  int64_t sum = 0;
  for (size_t c = 0; c < kCategoryCount; ++c) {
    if (cell.ms[c] == 0) continue;
    sum_ms += finite(cell.ms[c], kMaxMs);
    const int64_t next = std::llround(sum_ms * per_ms);
    out[c] = next - sum;
    sum = next;
  }
  // What floats lose in adding up is no rest.
  const double rest = (finite(cell.wall_ms, kMaxMs) - sum_ms) * per_ms;
  if (std::abs(rest) > 0.1) out[kRest] = quanta(cell.wall_ms, per_ms) - sum;
  out[kCaused] = quanta(cell.caused_ms, per_ms);
  out[kGc] = quanta(cell.gc_ms, per_ms);
  out[kSync] = quanta(cell.sync_ms, per_ms);
  out[kCpu] = cell.cpu_ms >= 0 ? quanta(cell.cpu_ms, per_ms / kCpuQuanta) + 1 : 0;
  out[kTags] = cell.tags;
  out[kWaitedFor] = int64_t{cell.waited_for} + 1;
  if (cell.has_loss) {
    const int64_t ordered = float_to_ordered(cell.loss, kFineDrop);
    out[kLoss] = ordered >= 0 ? ordered + 1 : ordered;
  }
  out[kSamples] = float_to_ordered(cell.samples, 0);
  out[kTokens] = float_to_ordered(cell.tokens, 0);
  out[kBytes] = float_to_ordered(cell.bytes, 0);
  out[kInvoluntary] = int64_t{cell.involuntary_switches} + 1;
  out[kCollectives] = cell.collectives, out[kSmallCollectives] = cell.small_collectives;
  out[kFetches] = cell.fetches, out[kFetchReady] = cell.fetch_ready;
  out[kFetchOutOfOrder] = cell.fetch_out_of_order, out[kFetchInFlight] = cell.fetch_in_flight;
  out[kSignature] = static_cast<int64_t>(cell.signature);
  return out;
}

Cell restore(const MetricValues& values, uint32_t quantum_ns) {
  Cell cell;
  cell.present = values[kAbsent] == 0;
  if (!cell.present) return cell;
  double wall = static_cast<double>(values[kRest]);
  for (size_t c = 0; c < kCategoryCount; ++c) {
    cell.ms[c] = to_ms(values[c], quantum_ns);
    wall += static_cast<double>(values[c]);
  }
  cell.wall_ms = static_cast<float>(wall * quantum_ns * 1e-6);
  cell.wait_ms = cell.ms[index(Category::kStragglerWait)];
  cell.stall_ms = cell.wait_ms + cell.ms[index(Category::kCommTransfer)];
  cell.caused_ms = to_ms(values[kCaused], quantum_ns);
  cell.gc_ms = to_ms(values[kGc], quantum_ns);
  cell.sync_ms = to_ms(values[kSync], quantum_ns);
  cell.cpu_ms = values[kCpu] <= 0 ? -1 : static_cast<float>(static_cast<double>(values[kCpu] - 1) * kCpuQuanta * quantum_ns * 1e-6);
  cell.tags = to_count(values[kTags]);
  cell.has_loss = values[kLoss] != 0;
  if (cell.has_loss) cell.loss = ordered_to_float(values[kLoss] > 0 ? values[kLoss] - 1 : values[kLoss], kFineDrop);
  cell.samples = ordered_to_float(values[kSamples], 0);
  cell.tokens = ordered_to_float(values[kTokens], 0);
  cell.bytes = ordered_to_float(values[kBytes], 0);
  cell.involuntary_switches = values[kInvoluntary] <= 0 ? -1 : to_int(values[kInvoluntary] - 1);
  cell.collectives = to_count(values[kCollectives]), cell.small_collectives = to_count(values[kSmallCollectives]);
  cell.fetches = to_count(values[kFetches]), cell.fetch_ready = to_count(values[kFetchReady]);
  cell.fetch_out_of_order = to_count(values[kFetchOutOfOrder]), cell.fetch_in_flight = to_count(values[kFetchInFlight]);
  cell.signature = static_cast<uint64_t>(values[kSignature]);
  return cell;
}

int32_t waited_for(const MetricValues& values) { return values[kWaitedFor] <= 0 ? -1 : to_int(values[kWaitedFor] - 1); }

double summand(size_t metric, int64_t value, uint32_t quantum_ns) {
  switch (kMetrics[metric].kind) {
    case MetricKind::kTime: return static_cast<double>(value) * quantum_ns * 1e-6;
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
