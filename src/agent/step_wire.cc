#include "agent/step_wire.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "store/metric.h"

namespace stepscope {
namespace {

constexpr size_t kMostOps = 65536, kMostGroups = 4096;
constexpr int64_t kMostNs = int64_t{1} << 61;  // sums of what a damaged frame says stay in range

int64_t sum(const LedgerNs& ledger) { return std::accumulate(ledger.begin(), ledger.end(), int64_t{0}); }

// Rounded to units so that any stretch of a step is off by one unit at most.
class Rounding {
 public:
  explicit Rounding(uint32_t unit_ns) : unit_ns_(unit_ns) {}
  int64_t units(int64_t ns) {
    sum_ns_ += ns;
    const int64_t all = (sum_ns_ + unit_ns_ / 2) >> std::countr_zero(unit_ns_);
    return all - std::exchange(told_, all);
  }

 private:
  uint32_t unit_ns_;
  int64_t sum_ns_ = 0, told_ = 0;
};

int64_t bounded(int64_t ns) { return std::clamp(ns, -kMostNs, kMostNs); }

bool same(double a, double b) { return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b); }
bool same(const std::optional<double>& a, const std::optional<double>& b) {
  return a.has_value() == b.has_value() && (!a || same(*a, *b));
}
template <std::integral T>
bool same(T a, T b) {
  return a == b;
}

// One figure against that of the step before, which it differs from. Times stand for themselves.
template <class Kind, class A>
void put_figure(A& wire, typename Kind::Fact& value, const typename Kind::Fact& before, uint32_t unit_ns) {
  using Fact = typename Kind::Fact;
  if constexpr (std::is_same_v<Fact, double>) {
    wire.number(value);
  } else if constexpr (std::is_same_v<Fact, std::optional<double>>) {
    wire.maybe(value, [&](double& number) { wire.number(number); });
  } else if constexpr (std::is_same_v<Kind, field::Time> || std::is_base_of_v<field::MeasuredTime, Kind>) {
    int64_t units = value < 0 ? -1 : (bounded(value) + unit_ns / 2) / unit_ns;
    if (std::is_same_v<Kind, field::Time> && value < 0) units = -((-bounded(value) + unit_ns / 2) / unit_ns);
    wire.num(units);
    if constexpr (!A::kWrites) {
      const bool unknown = !std::is_same_v<Kind, field::Time> && units < 0;
      value = unknown ? Kind::kFact : std::clamp<int64_t>(units, -kMostNs / unit_ns, kMostNs / unit_ns) * unit_ns;
    }
  } else {
    using Wide = std::make_unsigned_t<Fact>;
    auto change = static_cast<std::make_signed_t<Fact>>(static_cast<Wide>(value) - static_cast<Wide>(before));
    wire.num(change);
    if constexpr (!A::kWrites) value = static_cast<Fact>(static_cast<Wide>(before) + static_cast<Wide>(change));
  }
}

template <class Kind>
constexpr bool kIsTime = std::is_same_v<Kind, field::Time> || std::is_base_of_v<field::MeasuredTime, Kind>;

// Which figures differ from the step before's (times: are told at all), then those.
template <class A>
void put_figures(A& wire, StepFacts& facts, const StepFacts& before, uint32_t unit_ns) {
  const DeviceMemory none;
  const DeviceMemory& memory_before = before.memory ? *before.memory : none;
  uint8_t has_memory = facts.memory.has_value();
  wire.num(has_memory);
  if constexpr (!A::kWrites) {
    facts.memory.reset();
    if (has_memory) facts.memory.emplace();
  }
  uint64_t mask = 0;
  unsigned bit = 0;
#define LOOK(kind, value, old) \
  mask |= uint64_t{!same((value), kIsTime<field::kind> ? field::kind::kFact : (old))} << bit++;
  if constexpr (A::kWrites) {
#define STEP_FIELD(kind, member, ...) LOOK(kind, facts.member, before.member)
#define FETCH_FIELD(kind, member, ...) LOOK(kind, facts.fetch.member, before.fetch.member)
#include "align/step_fields.def"
    if (has_memory) {
#define MEMORY_FIELD(kind, member, ...) LOOK(kind, facts.memory->member, memory_before.member)
#include "align/step_fields.def"
    }
  }
#undef LOOK
  wire.num(mask);
  bit = 0;
#define PASS(kind, value, old)                          \
  if (mask >> bit++ & 1)                                \
    put_figure<field::kind>(wire, value, old, unit_ns); \
  else                                                  \
    value = kIsTime<field::kind> ? field::kind::kFact : old;
#define STEP_FIELD(kind, member, ...) PASS(kind, facts.member, before.member)
#define FETCH_FIELD(kind, member, ...) PASS(kind, facts.fetch.member, before.fetch.member)
#include "align/step_fields.def"
  if (has_memory && facts.memory) {
#define MEMORY_FIELD(kind, member, ...) PASS(kind, facts.memory->member, memory_before.member)
#include "align/step_fields.def"
  }
#undef PASS
}

constexpr unsigned kFigures = 0
#define STEP_FIELD(...) +1
#define FETCH_FIELD(...) +1
#define MEMORY_FIELD(...) +1
#include "align/step_fields.def"
    ;
static_assert(kFigures <= 64, "more figures than bits that say which are told");

}  // namespace

uint32_t StepWire::time_unit_ns(int64_t wall_ns) { return store::quantum_for(static_cast<double>(wall_ns) * 1e-6); }

template <class A>
void StepWire::time(A& wire, int64_t& ns) {
  int64_t units = (bounded(ns) + unit_ns_ / 2) >> std::countr_zero(unit_ns_);
  wire.num(units);
  if constexpr (!A::kWrites) ns = std::clamp<int64_t>(units, -kMostNs / unit_ns_, kMostNs / unit_ns_) * unit_ns_;
}

// The first time a group is met it is told, later by its number.
template <class A>
void StepWire::group(A& wire, uint64_t& id) {
  size_t number = groups_.size();
  if constexpr (A::kWrites) {
    const auto [known, fresh] = group_numbers_.try_emplace(id, number);
    number = known->second;
  }
  wire.num(number);
  if (number < groups_.size()) {
    id = groups_[number];
    return;
  }
  wire.raw(&id, sizeof id);
  if constexpr (!A::kWrites)
    if (number > groups_.size() || groups_.size() >= kMostGroups) return wire.fail();
  groups_.push_back(id);
}

template <class A>
void StepWire::stall_place(A& wire, Stall& stall, const Stall* before) {
  group(wire, stall.group);
  auto change = static_cast<int64_t>(stall.sequence - (before ? before->sequence : 0));
  wire.num(change);
  if constexpr (!A::kWrites) stall.sequence = (before ? before->sequence : 0) + static_cast<uint64_t>(change);
  wire.word(stall.phase, kCategoryCount);
  auto bits =
      static_cast<uint8_t>(stall.sync_point.sends | stall.sync_point.counted << 1 | (stall.sync_point.peer >= 0) << 2);
  wire.num(bits);
  if (bits & 4) wire.num(stall.sync_point.peer);
  if constexpr (!A::kWrites) {
    stall.sync_point.sends = bits & 1, stall.sync_point.counted = bits & 2;
    if (!(bits & 4)) stall.sync_point.peer = -1;
  }
}

// Own time and stalls in their order. Returns the length of all, as read.
template <class A>
int64_t StepWire::timeline(A& wire, Timeline& before, int64_t& begin_ns, LedgerNs& own, std::vector<LedgerNs>& segments,
                           std::vector<Stall>& stalls) {
  constexpr LedgerNs kNone{};
  std::vector<LedgerNs> plain;  // a step whose parts do not fit each other is told by its sums
  const std::vector<LedgerNs>* parts = &segments;
  if constexpr (A::kWrites) {
    if (segments.size() != stalls.size() + 1) {
      plain.assign(stalls.size() + 1, kNone);
      plain[0] = own;
      parts = &plain;
    }
  }
  Timeline now;
  wire.list(stalls, kMostOps, [&](Stall& stall) {
    const size_t j = now.stalls.size();
    stall_place(wire, stall, j > 0 ? &now.stalls.back() : !before.stalls.empty() ? &before.stalls[0] : nullptr);
    now.stalls.push_back(stall);
  });
  Rounding rounding(unit_ns_);
  int64_t total = 0;
  if constexpr (!A::kWrites) {
    if (!wire.charge(2 * (stalls.size() + 1) * sizeof(LedgerNs))) return 0;
    segments.assign(stalls.size() + 1, kNone);
    own = {};
  }
  now.segments.assign(stalls.size() + 1, kNone);
  now.masks.assign(stalls.size() + 1, 0);
  now.stall_units.assign(stalls.size(), 0);
  for (size_t j = 0; j <= stalls.size(); ++j) {
    const LedgerNs& old = j < before.segments.size() ? before.segments[j] : kNone;
    const uint64_t old_mask = j < before.masks.size() ? before.masks[j] : 0;
    uint64_t mask = 0;
    if constexpr (A::kWrites)
      for (size_t c = 0; c < kCategoryCount; ++c) mask |= uint64_t{(*parts)[j][c] != 0} << c;
    uint64_t changed = mask ^ old_mask;
    wire.num(changed);
    mask = changed ^ old_mask;
    now.masks[j] = mask;
    for (size_t c = 0; c < kCategoryCount; ++c) {
      if (!(mask >> c & 1)) continue;
      int64_t change = 0;
      if constexpr (A::kWrites) {
        now.segments[j][c] = rounding.units(bounded((*parts)[j][c]));
        change = now.segments[j][c] - old[c];
      }
      wire.num(change);
      if constexpr (!A::kWrites) {
        now.segments[j][c] = std::clamp<int64_t>(old[c] + std::clamp(change, -kMostNs, kMostNs),
                                                 -kMostNs / unit_ns_ / 64, kMostNs / unit_ns_ / 64);
        segments[j][c] = now.segments[j][c] * unit_ns_;
        own[c] = bounded(own[c] + segments[j][c]);
      }
      total = bounded(total + now.segments[j][c] * unit_ns_);
    }
    if (j == stalls.size()) break;
    const int64_t old_units = j < before.stall_units.size() ? before.stall_units[j] : 0;
    int64_t change = 0;
    if constexpr (A::kWrites) {
      now.stall_units[j] = rounding.units(bounded(stalls[j].duration_ns));
      change = now.stall_units[j] - old_units;
    }
    wire.num(change);
    if constexpr (!A::kWrites) {
      now.stall_units[j] = std::clamp<int64_t>(old_units + std::clamp(change, -kMostNs, kMostNs),
                                               -kMostNs / unit_ns_ / 64, kMostNs / unit_ns_ / 64);
      stalls[j].duration_ns = now.stall_units[j] * unit_ns_;
      stalls[j].begin_ns = total;  // of the step's begin, until that is known
    }
    total = bounded(total + now.stall_units[j] * unit_ns_);
  }
  (void)begin_ns;
  before = std::move(now);
  return total;
}

// Those at the front that are the same as in the step before are counted alone.
template <class A>
void StepWire::collectives(A& wire, RankStep& step) {
  const std::vector<CollectiveIssue>& old = before_.collectives;
  std::vector<CollectiveIssue>& all = step.collectives;
  size_t count = std::min(all.size(), kMostOps);
  if constexpr (A::kWrites)
    wire.num(count);
  else
    count = wire.count(kMostOps, sizeof(CollectiveIssue)), all.assign(count, {});
  if (count == 0) return;
  auto change = static_cast<int64_t>(all[0].sequence - (old.empty() ? 0 : old[0].sequence));
  wire.num(change);
  size_t same_ones = 0;
  if constexpr (A::kWrites) {
    const auto repeats = [&](const CollectiveIssue& a, const CollectiveIssue& b) {
      return a.group == b.group && a.bytes == b.bytes && a.op == b.op && a.peer == b.peer && a.p2p == b.p2p &&
             a.sequence == b.sequence + static_cast<uint64_t>(change);
    };
    while (same_ones < std::min(count, old.size()) && repeats(all[same_ones], old[same_ones])) ++same_ones;
  }
  wire.num(same_ones);
  if (same_ones > std::min(count, old.size())) {
    if constexpr (!A::kWrites) wire.fail();
    return;
  }
  int64_t units = 0;
  uint8_t stamped = std::any_of(all.begin(), all.end(), [](const auto& c) { return c.done_ns > c.time_ns; });
  wire.num(stamped);
  for (size_t i = 0; i < count; ++i) {
    CollectiveIssue& issue = all[i];
    if (i < same_ones) {
      if constexpr (!A::kWrites) {
        issue = old[i];
        issue.sequence += static_cast<uint64_t>(change);
      }
    } else {
      group(wire, issue.group);
      const uint64_t base = i > 0 ? all[i - 1].sequence : old.empty() ? 0 : old[0].sequence;
      auto ahead = static_cast<int64_t>(issue.sequence - base);
      wire.num(ahead);
      if constexpr (!A::kWrites) issue.sequence = base + static_cast<uint64_t>(ahead);
      wire.num(issue.bytes);
      wire.num(issue.op);
      wire.num(issue.peer);
      uint8_t p2p = issue.p2p;
      wire.num(p2p);
      if constexpr (!A::kWrites) issue.p2p = p2p != 0;
    }
    // Since backward began: 0 = outside of it, else the distance to the one before, zigzag + 1.
    uint64_t place = 0;
    const int64_t here = issue.since_backward_ns >= 0
                             ? (bounded(issue.since_backward_ns) + unit_ns_ / 2) >> std::countr_zero(unit_ns_)
                             : 0;
    if constexpr (A::kWrites)
      if (issue.since_backward_ns >= 0) place = store::zigzag(here - units) + 1;
    wire.num(place);
    if (place > 0) {
      units =
          std::clamp<int64_t>(units + std::clamp(store::unzigzag(place - 1), -kMostNs, kMostNs), 0, kMostNs / unit_ns_);
      if constexpr (!A::kWrites) issue.since_backward_ns = units * unit_ns_;
    } else if constexpr (!A::kWrites) {
      issue.since_backward_ns = -1;
    }
    int64_t took_ns = std::max<int64_t>(0, issue.done_ns - issue.time_ns);
    if (!stamped) took_ns = 0;
    if (stamped) time(wire, took_ns);
    if constexpr (!A::kWrites) issue.time_ns = 0, issue.done_ns = std::max<int64_t>(0, took_ns);
  }
}

template <class A>
void StepWire::device_ops(A& wire, RankStep& step) {
  DeviceOp old;
  old.begin_ns = step.gpu ? 0 : 0;
  bool first = true;
  const int64_t base_ns = first_ ? 0 : before_.end_ns;
  wire.list(step.device_ops, kMostOps, [&](DeviceOp& op) {
    group(wire, op.group);
    auto ahead = static_cast<int64_t>(op.sequence - old.sequence);
    auto more = static_cast<int64_t>(op.bytes - old.bytes);
    wire.num(ahead);
    wire.num(more);
    wire.num(op.op);
    wire.num(op.peer);
    int64_t after_ns = op.begin_ns - (first ? base_ns : old.begin_ns), took_ns = op.end_ns - op.begin_ns;
    time(wire, after_ns);
    time(wire, took_ns);
    if constexpr (!A::kWrites) {
      op.sequence = old.sequence + static_cast<uint64_t>(ahead);
      op.bytes = old.bytes + static_cast<uint64_t>(more);
    }
    // As the reader has them, on both sides.
    DeviceOp told = op;
    told.begin_ns = bounded((first ? base_ns : old.begin_ns) + after_ns);
    told.end_ns = bounded(told.begin_ns + took_ns);
    if constexpr (!A::kWrites) op = told;
    old = told;
    first = false;
  });
}

template <class A>
void StepWire::step(A& wire, RankStep& step) {
  auto ahead = static_cast<int64_t>(step.step - before_.step);
  wire.num(ahead);
  if constexpr (!A::kWrites) step.step = before_.step + static_cast<uint64_t>(ahead);
  put_figures(wire, step, before_, unit_ns_);
  uint8_t gpu = step.gpu.has_value();
  wire.num(gpu);
  int64_t nothing = 0;
  const int64_t wall_ns = timeline(wire, host_, nothing, step.own, step.segments, step.stalls);
  // Steps follow one another; what is between two is told.
  int64_t gap_ns = step.end_ns - before_.end_ns - wall_ns;
  if (first_) {
    wire.num(step.end_ns);
    if constexpr (!A::kWrites) step.end_ns = bounded(step.end_ns);
  } else {
    time(wire, gap_ns);
    if constexpr (!A::kWrites) step.end_ns = bounded(before_.end_ns + wall_ns + gap_ns);
  }
  if constexpr (!A::kWrites) {
    step.begin_ns = step.end_ns - wall_ns;
    for (Stall& stall : step.stalls) stall.begin_ns += step.begin_ns;
  }
  collectives(wire, step);
  if constexpr (!A::kWrites)
    for (CollectiveIssue& issue : step.collectives) {
      issue.time_ns = step.begin_ns;
      if (issue.done_ns > 0) issue.done_ns += step.begin_ns;
    }
  if (gpu) {
    if constexpr (!A::kWrites) step.gpu.emplace();
    GpuStep& device = *step.gpu;
    int64_t after_ns = device.begin_ns - step.begin_ns;
    time(wire, after_ns);
    const int64_t length_ns = timeline(wire, gpu_, nothing, device.own, device.segments, device.stalls);
    wire.num(device.host_bound);
    uint8_t captured = device.captured;
    wire.num(captured);
    for (const Category c : kLaunchPhases) time(wire, device.launching[index(c)]);
    if constexpr (!A::kWrites) {
      device.begin_ns = step.begin_ns + after_ns;
      device.wall_ns = length_ns;
      device.captured = captured != 0;
      for (Stall& stall : device.stalls) stall.begin_ns += device.begin_ns;
    }
  }
  device_ops(wire, step);
}

void StepWire::put(WireOut& out, const RankStep& told) {
  RankStep now = told;
  if (now.gpu) {
    // The order of the host's own time tells nothing beside the device's.
    int64_t stall_ns = now.stall_ns();
    now.stalls.clear();
    now.segments.assign(stall_ns > 0 ? 2 : 1, LedgerNs{});
    now.segments[0] = now.own;
    if (stall_ns > 0) now.stalls.push_back({.duration_ns = stall_ns});
  }
  // Told times are those that the reader will have: what follows is told against them.
  const int64_t before_end_ns = before_.end_ns;
  const bool first = first_;
  step(out, now);
  int64_t wall_ns = 0;
  for (const LedgerNs& segment : host_.segments) wall_ns += sum(segment) * unit_ns_;
  for (const int64_t units : host_.stall_units) wall_ns += units * unit_ns_;
  if (!first) {
    const int64_t gap_ns = now.end_ns - before_end_ns - wall_ns;
    now.end_ns = before_end_ns + wall_ns + (((gap_ns + unit_ns_ / 2) >> std::countr_zero(unit_ns_)) * unit_ns_);
  }
  before_ = std::move(now);
  first_ = false;
}

void StepWire::take(WireIn& in, RankStep& told) {
  step(in, told);
  before_ = told;
  first_ = false;
}

}  // namespace stepscope
