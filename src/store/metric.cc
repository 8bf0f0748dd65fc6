#include "store/metric.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace stepscope::store {
namespace {

constexpr uint8_t kCoarse = 32;  // quanta: of what stands beside the main ledger
constexpr uint8_t kLossDrop = 8, kMemoryDrop = 4;
constexpr double kMaxMs = 1e12;

constexpr std::array<std::string_view, kCategoryCount> kHostNames = {
    "host_input_wait",  "host_h2d",           "host_forward",        "host_backward",
    "host_optimizer",   "host_comm_transfer", "host_straggler_wait", "host_host_pause",
    "host_compile",     "host_checkpoint",    "host_validation",     "host_logging",
    "host_epoch_start", "host_user_code",     "host_startup",        "host_teardown",
    "host_hang",        "host_unattributed",  "host_unresolved"};

constexpr std::array<std::string_view, kLaunchPhases.size()> kLaunchingNames = {
    "launching_forward", "launching_backward", "launching_optimizer"};

constexpr std::array<MetricInfo, kMetricCount> kMetrics = [] {
  std::array<MetricInfo, kMetricCount> all{};
  for (size_t c = 0; c < kCategoryCount; ++c)
    all[c] = {static_cast<uint8_t>(16 + c), kCategoryNames[c], MetricKind::kTime, true};
  all[kRest] = {10, "rest", MetricKind::kTime, true};
  all[kAbsent] = {8, "absent", MetricKind::kCount, true};
  all[kOutside] = {51, "transfer_outside", MetricKind::kTime, false};
  all[kTags] = {9, "tags", MetricKind::kCount, false};
  all[kCaused] = {48, "caused", MetricKind::kTime, true};
  all[kWaitedFor] = {49, "waited_for", MetricKind::kCount, false};
  all[kPeak] = {50, "peak", MetricKind::kTime, false};
  all[kLoss] = {64, "loss", MetricKind::kFine, false, 1, kLossDrop};
  all[kSamples] = {65, "samples", MetricKind::kReal, true};
  all[kTokens] = {66, "tokens", MetricKind::kReal, true};
  all[kBytes] = {67, "bytes", MetricKind::kReal, true};
  all[kEpoch] = {68, "epoch", MetricKind::kCount, false};
  all[kCpu] = {80, "cpu", MetricKind::kTime, false, kCoarse};
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
  all[kGpu] = {96, "gpu", MetricKind::kCount, true};
  all[kHostBound] = {97, "host_bound", MetricKind::kCount, false};
  all[kDeviceComm] = {98, "device_comm", MetricKind::kTime, false};
  for (size_t i = 0; i < kLaunchPhases.size(); ++i)
    all[kLaunching + i] = {static_cast<uint8_t>(99 + i), kLaunchingNames[i], MetricKind::kTime, false, kCoarse};
  all[kAllocated] = {104, "allocated_bytes", MetricKind::kFine, false, 1, kMemoryDrop};
  all[kReserved] = {105, "reserved_bytes", MetricKind::kFine, false, 1, kMemoryDrop};
  all[kActive] = {106, "active_bytes", MetricKind::kFine, false, 1, kMemoryDrop};
  all[kInactiveSplit] = {107, "inactive_split_bytes", MetricKind::kFine, false, 1, kMemoryDrop};
  all[kPeakBytes] = {108, "peak_bytes", MetricKind::kFine, false, 1, kMemoryDrop};
  all[kHeldBytes] = {112, "held_bytes", MetricKind::kFine, false, 1, kMemoryDrop};
  all[kH2dBytes] = {113, "h2d_bytes", MetricKind::kReal, true};
  all[kRetries] = {109, "retries", MetricKind::kCount, false};
  all[kOoms] = {110, "ooms", MetricKind::kCount, false};
  all[kDeviceFrees] = {111, "device_frees", MetricKind::kCount, false};
  for (size_t c = 0; c < kCategoryCount; ++c)
    all[kHost + c] = {static_cast<uint8_t>(128 + c), kHostNames[c], MetricKind::kTime, true, kCoarse};
  all[kHostRest] = {11, "host_rest", MetricKind::kTime, true, kCoarse};
  return all;
}();

double finite(double value, double limit) { return std::isfinite(value) ? std::clamp(value, -limit, limit) : 0; }
int64_t quanta(double ms, double per_ms) { return std::llround(finite(ms, kMaxMs) * per_ms); }
float to_ms(int64_t quanta, uint32_t quantum_ns) {
  return static_cast<float>(static_cast<double>(quanta) * quantum_ns * 1e-6);
}
double fine_to_double(const MetricValues& values, size_t metric, double otherwise) {
  const int64_t v = values[metric];
  return v == 0 ? otherwise : ordered_to_float(v > 0 ? v - 1 : v, kMetrics[metric].drop);
}
void put_fine(MetricValues& values, size_t metric, double value) {
  const int64_t ordered = float_to_ordered(value, kMetrics[metric].drop);
  values[metric] = ordered >= 0 ? ordered + 1 : ordered;
}

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

uint32_t to_count(int64_t value) {
  return static_cast<uint32_t>(std::clamp<int64_t>(value, 0, std::numeric_limits<uint32_t>::max()));
}
int32_t to_int(int64_t value) {
  return static_cast<int32_t>(std::clamp<int64_t>(value, -1, std::numeric_limits<int32_t>::max()));
}

}  // namespace

const MetricInfo& metric_info(size_t metric) { return kMetrics[metric]; }

size_t metric_of_id(int64_t id) {
  for (size_t m = 0; m < kMetricCount; ++m)
    if (kMetrics[m].id == id) return m;
  return kMetricCount;
}

static void put_device(MetricValues& out, const FlatCell& cell, double per_ms) {
  if (cell.device_comm_ms >= 0) out[kDeviceComm] = quanta(cell.device_comm_ms, per_ms) + 1;
  out[kRetries] = static_cast<int64_t>(cell.retries);
  out[kOoms] = static_cast<int64_t>(cell.ooms);
  out[kDeviceFrees] = static_cast<int64_t>(cell.device_frees);
  const std::pair<Metric, double> sizes[] = {
      {kAllocated, cell.allocated_bytes},          {kReserved, cell.reserved_bytes}, {kActive, cell.active_bytes},
      {kInactiveSplit, cell.inactive_split_bytes}, {kPeakBytes, cell.peak_bytes},    {kHeldBytes, cell.held_bytes}};
  for (const auto& [metric, bytes] : sizes)
    if (bytes >= 0) put_fine(out, metric, bytes);
}

static void take_device(const MetricValues& values, Cell& cell, double quantum_ms) {
  cell.device_comm_ms =
      values[kDeviceComm] <= 0 ? -1 : static_cast<float>(static_cast<double>(values[kDeviceComm] - 1) * quantum_ms);
  cell.allocated_bytes = fine_to_double(values, kAllocated, -1);
  cell.reserved_bytes = fine_to_double(values, kReserved, -1);
  cell.active_bytes = fine_to_double(values, kActive, -1);
  cell.inactive_split_bytes = fine_to_double(values, kInactiveSplit, -1);
  cell.peak_bytes = fine_to_double(values, kPeakBytes, -1);
  cell.held_bytes = fine_to_double(values, kHeldBytes, -1);
  cell.retries = static_cast<uint64_t>(values[kRetries]);
  cell.ooms = static_cast<uint64_t>(values[kOoms]);
  cell.device_frees = static_cast<uint64_t>(values[kDeviceFrees]);
}

static void take_stalls(const MetricValues& values, Cell& cell, uint32_t quantum_ns) {
  if (cell.stall_ms <= 0) return;
  const float unresolved_ms = std::clamp(cell.ms[index(Category::kUnresolved)], 0.0f, cell.stall_ms);
  // Waiting beside nothing but unresolved time was in the same meetings; else which of the two it belongs to is not
  // kept.
  const bool half_seen = unresolved_ms > 0 && cell.ms[index(Category::kCommTransfer)] <= 0;
  if (half_seen) return cell.stalls.push_back({0, 0, cell.stall_ms, 0, Category::kBackward, unresolved_ms});
  const float seen_ms = cell.stall_ms - unresolved_ms;
  const float outside_ms = std::clamp(to_ms(values[kOutside], quantum_ns), 0.0f, seen_ms);
  const float inside_ms = seen_ms - outside_ms;
  if (inside_ms > 0)
    cell.stalls.push_back({kSeenGroup, 0, inside_ms, std::max(0.0f, inside_ms - cell.wait_ms), Category::kBackward});
  if (outside_ms > 0) cell.stalls.push_back({kSeenGroup, 1, outside_ms, outside_ms, Category::kOptimizer});
  if (unresolved_ms > 0) cell.stalls.push_back({kUnseenGroup, 0, unresolved_ms, 0, Category::kBackward, unresolved_ms});
}

// The host's ledger: kept beside the GPU's, else the main one with its waits not split.
static void take_host(const MetricValues& values, Cell& cell, double quantum_ms) {
  if (cell.gpu) {
    cell.host_bound = to_count(values[kHostBound]);
    for (size_t i = 0; i < kLaunchPhases.size(); ++i)
      cell.launching_ms[index(kLaunchPhases[i])] =
          static_cast<float>(static_cast<double>(values[kLaunching + i]) * quantum_ms * kCoarse);
    cell.host_wall_ms = take_ledger(values, kHost, kHostRest, cell.host_ms, quantum_ms * kCoarse);
    return;
  }
  cell.host_wall_ms = cell.wall_ms;
  cell.host_ms = cell.ms;
  cell.host_ms[index(Category::kCommTransfer)] = cell.stall_ms;
  cell.host_ms[index(Category::kStragglerWait)] = cell.host_ms[index(Category::kUnresolved)] = 0;
}

FlatCell to_flat(const Cell& cell) {
  FlatCell flat;
  flat.present = true;
  flat.ms = cell.ms;
  flat.wall_ms = cell.wall_ms, flat.caused_ms = cell.caused_ms, flat.cpu_ms = cell.cpu_ms;
  flat.gc_ms = cell.gc_ms, flat.sync_ms = cell.sync_ms;
  flat.gpu = cell.gpu, flat.host_ms = cell.host_ms, flat.host_wall_ms = cell.host_wall_ms,
  flat.host_bound = cell.host_bound;
  flat.launching_ms = cell.launching_ms;
  flat.device_comm_ms = cell.device_comm_ms;
  flat.allocated_bytes = cell.allocated_bytes, flat.reserved_bytes = cell.reserved_bytes,
  flat.active_bytes = cell.active_bytes;
  flat.inactive_split_bytes = cell.inactive_split_bytes, flat.peak_bytes = cell.peak_bytes;
  flat.held_bytes = cell.held_bytes, flat.h2d_bytes = cell.h2d_bytes;
  flat.retries = cell.retries, flat.ooms = cell.ooms, flat.device_frees = cell.device_frees;
  flat.loss = cell.loss, flat.has_loss = cell.has_loss;
  flat.samples = cell.samples, flat.tokens = cell.tokens, flat.bytes = cell.bytes;
  flat.signature = cell.signature;
  flat.epoch = cell.epoch;
  for (const CellStall& stall : cell.stalls)
    if (stall.phase != Category::kBackward) flat.outside_ms += stall.transfer_ms;
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
  put_ledger(out, 0, kRest, cell.ms, cell.wall_ms, per_ms);
  if (cell.gpu) {
    out[kGpu] = 1;
    out[kHostBound] = cell.host_bound;
    for (size_t i = 0; i < kLaunchPhases.size(); ++i)
      out[kLaunching + i] = quanta(cell.launching_ms[index(kLaunchPhases[i])], per_ms / kCoarse);
    put_ledger(out, kHost, kHostRest, cell.host_ms, cell.host_wall_ms, per_ms / kCoarse);
  }
  out[kOutside] = quanta(cell.outside_ms, per_ms);
  out[kCaused] = quanta(cell.caused_ms, per_ms);
  out[kGc] = quanta(cell.gc_ms, per_ms);
  out[kSync] = quanta(cell.sync_ms, per_ms);
  out[kCpu] = cell.cpu_ms >= 0 ? quanta(cell.cpu_ms, per_ms / kCoarse) + 1 : 0;
  out[kTags] = cell.tags;
  out[kWaitedFor] = int64_t{cell.waited_for} + 1;
  if (cell.has_loss) put_fine(out, kLoss, cell.loss);
  out[kSamples] = float_to_ordered(cell.samples, 0);
  out[kTokens] = float_to_ordered(cell.tokens, 0);
  out[kH2dBytes] = float_to_ordered(cell.h2d_bytes, 0);
  out[kBytes] = float_to_ordered(cell.bytes, 0);
  out[kEpoch] = int64_t{cell.epoch} + 1;
  out[kInvoluntary] = int64_t{cell.involuntary_switches} + 1;
  out[kCollectives] = cell.collectives, out[kSmallCollectives] = cell.small_collectives;
  out[kFetches] = cell.fetches, out[kFetchReady] = cell.fetch_ready;
  out[kFetchOutOfOrder] = cell.fetch_out_of_order, out[kFetchInFlight] = cell.fetch_in_flight;
  out[kSignature] = static_cast<int64_t>(cell.signature);
  put_device(out, cell, per_ms);
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
  take_stalls(values, cell, quantum_ns);
  cell.caused_ms = to_ms(values[kCaused], quantum_ns);
  cell.gc_ms = to_ms(values[kGc], quantum_ns);
  cell.sync_ms = to_ms(values[kSync], quantum_ns);
  cell.cpu_ms =
      values[kCpu] <= 0 ? -1 : static_cast<float>(static_cast<double>(values[kCpu] - 1) * kCoarse * quantum_ms);
  cell.tags = to_count(values[kTags]);
  cell.has_loss = values[kLoss] != 0;
  cell.loss = fine_to_double(values, kLoss, 0);
  cell.samples = ordered_to_float(values[kSamples], 0);
  cell.tokens = ordered_to_float(values[kTokens], 0);
  cell.h2d_bytes = ordered_to_float(values[kH2dBytes], 0);
  cell.bytes = ordered_to_float(values[kBytes], 0);
  cell.epoch = values[kEpoch] <= 0 ? -1 : to_int(values[kEpoch] - 1);
  cell.involuntary_switches = values[kInvoluntary] <= 0 ? -1 : to_int(values[kInvoluntary] - 1);
  cell.collectives = to_count(values[kCollectives]), cell.small_collectives = to_count(values[kSmallCollectives]);
  cell.fetches = to_count(values[kFetches]), cell.fetch_ready = to_count(values[kFetchReady]);
  cell.fetch_out_of_order = to_count(values[kFetchOutOfOrder]), cell.fetch_in_flight = to_count(values[kFetchInFlight]);
  cell.signature = static_cast<uint64_t>(values[kSignature]);
  take_host(values, cell, quantum_ms);
  take_device(values, cell, quantum_ms);
  return cell;
}

int32_t waited_for(const MetricValues& values) { return values[kWaitedFor] <= 0 ? -1 : to_int(values[kWaitedFor] - 1); }

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
