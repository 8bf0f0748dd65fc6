// Closed rows as a training job gives them: ranks with noise in every phase, one straggler, a last arriver who makes the
// others wait; or, for property tests, cells of arbitrary content.
#pragma once

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "align/step_table.h"
#include "analyze/attribution.h"

namespace stepscope::examples {

struct JobShape {
  int ranks = 8;
  double scale = 1;              // 1: a step of about 40 ms
  double noise = 0.02;           // relative, log-normal, per phase, rank and step
  int straggler = 1;             // -1 = none
  bool gpu = false;              // two ledgers and an allocator
  uint64_t seed = 1;
};

class JobRows {
 public:
  explicit JobRows(JobShape shape) : shape_(shape), random_(shape.seed) {}

  StepRow next() {
    StepRow row;
    row.step = step_++;
    std::vector<RankStep> steps(static_cast<size_t>(shape_.ranks));
    double latest = 0;
    std::vector<double> before(steps.size());
    for (size_t r = 0; r < steps.size(); ++r) {
      before[r] = fill(steps[r], static_cast<int>(r));
      latest = std::max(latest, before[r]);
    }
    const double transfer = ms(2.5);
    for (size_t r = 0; r < steps.size(); ++r) {
      RankStep& s = steps[r];
      s.stalls = {{0, row.step, 0, static_cast<int64_t>((latest - before[r] + transfer) * 1e6), Category::kBackward}};
      const double own = sum(s.own);
      s.begin_ns = now_ns_;
      s.end_ns = now_ns_ + static_cast<int64_t>((own + latest - before[r] + transfer) * 1e6);
      s.cpu_ns = static_cast<int64_t>(own * 0.9e6 * jitter());
      s.involuntary_switches = random_() % 20 == 0;
      s.collectives.resize(8, {.group = 0, .bytes = 25u << 20, .since_backward_ns = 1});
      if (shape_.gpu) add_gpu(s);
      row.cells.push_back(to_cell(static_cast<int>(r), s));
      row.tags |= s.tags;
      row.wall_ms = std::max(row.wall_ms, row.cells.back().wall_ms);
    }
    now_ns_ = steps[0].end_ns;
    attribute(row);
    return row;
  }

 private:
  double jitter() { return std::lognormal_distribution<double>(0, shape_.noise)(random_); }
  double ms(double typical) { return typical * shape_.scale * jitter(); }
  static double sum(const LedgerNs& own) {
    double all = 0;
    for (int64_t ns : own) all += static_cast<double>(ns) * 1e-6;
    return all;
  }

  // The host runs ahead: it issues quickly and waits at the end of the step.
  void add_gpu(RankStep& s) {
    GpuStep gpu;
    gpu.own = s.own;
    gpu.stalls = s.stalls;
    gpu.wall_ns = s.wall_ns();
    s.gpu = gpu;
    int64_t left = s.wall_ns();
    for (Category c : {Category::kForward, Category::kBackward, Category::kOptimizer}) {
      s.own[index(c)] = static_cast<int64_t>(static_cast<double>(s.own[index(c)]) * 0.4 * jitter());
      left -= s.own[index(c)];
    }
    left -= s.own[index(Category::kInputWait)] + s.own[index(Category::kUnattributed)] + s.own[index(Category::kHostPause)] + s.own[index(Category::kCheckpoint)];
    s.own[index(Category::kHostPause)] += left;
    s.stalls.clear();
    s.memory = DeviceMemory{.allocated_bytes = (30ull << 30) + (random_() % 64 << 20), .reserved_bytes = 40ull << 30, .active_bytes = 31ull << 30,
                            .inactive_split_bytes = random_() % 8 << 20, .peak_bytes = (38ull << 30) + (random_() % 4 << 20),
                            .held_bytes = (20ull << 30) + (random_() % 64 << 20), .near_top = true};
  }

  // Own time of one rank; returns ms before its stall.
  double fill(RankStep& s, int rank) {
    const auto put = [&](Category c, double value) { s.own[index(c)] = static_cast<int64_t>(value * 1e6); };
    s.step = step_ - 1;
    put(Category::kInputWait, ms(0.8) * std::lognormal_distribution<double>(0, 0.3)(random_));
    put(Category::kForward, ms(11));
    put(Category::kBackward, ms(20) * (rank == shape_.straggler ? 1.3 : 1));
    put(Category::kOptimizer, ms(3));
    put(Category::kUnattributed, ms(0.4) * std::lognormal_distribution<double>(0, 0.3)(random_));
    if (random_() % 50 == 0) {
      put(Category::kHostPause, ms(8));
      s.gc_ns = s.own[index(Category::kHostPause)];
    }
    if (step_ % 500 == 499) {
      put(Category::kCheckpoint, ms(400));
      s.tags |= kTagCheckpoint;
    }
    s.loss = 2.5 * std::exp(-static_cast<double>(step_) / 5000) * std::lognormal_distribution<double>(0, 0.05)(random_);
    s.samples = 32;
    s.fetch = {.fetches = 1, .ready = static_cast<uint32_t>(3 + random_() % 2), .in_flight = 4};
    s.signature = 0x1234567890abcdefull;
    return sum(s.own) - static_cast<double>(s.own[index(Category::kOptimizer)]) * 1e-6;
  }

  JobShape shape_;
  std::mt19937_64 random_;
  uint32_t step_ = 0;
  int64_t now_ns_ = 1'000'000'000'000;
};

// Any cell at all: zero, tiny, huge, not a number.
class WildRows {
 public:
  WildRows(uint64_t seed, int ranks) : random_(seed), ranks_(ranks) {}

  StepRow next() {
    StepRow row;
    step_ += random_() % 16 == 0 ? 1 + static_cast<uint32_t>(random_() % 1000) : 1;
    row.step = step_;
    for (int r = 0; r < ranks_; ++r)
      if (random_() % 8 != 0 || (r + 1 == ranks_ && row.cells.empty())) row.cells.push_back(cell(r));
    return row;
  }

 private:
  double number() {
    switch (random_() % 12) {
      case 0: return std::numeric_limits<double>::quiet_NaN();
      case 1: return std::numeric_limits<double>::infinity();
      case 2: return -1e30;
      case 3: return static_cast<double>(random_());
      case 4: case 5: case 6: return 0;
      default: return std::ldexp(static_cast<double>(random_() >> 12), -static_cast<int>(random_() % 60));
    }
  }
  float ms() { return random_() % 3 ? static_cast<float>(static_cast<double>(random_() % 100'000'000) * 1e-6) : random_() % 20 ? 0 : static_cast<float>(number()); }
  // Of each kind of figure anything that it may hold.
  float wild(field::Time) { return ms(); }
  float wild(field::MeasuredTime) { return random_() % 2 ? -1 : std::abs(ms()); }
  uint32_t wild(field::Count) { return random_() % 3 ? static_cast<uint32_t>(random_() % 1024) : static_cast<uint32_t>(random_()); }
  int32_t wild(field::Number) { return static_cast<int32_t>(random_() % 100) - 1; }
  uint64_t wild(field::Total) { return random_() % 3 ? random_() % 3 : random_(); }
  double wild(field::Amount) { return random_() % 2 ? number() : static_cast<double>(random_() % (1u << 24)); }
  std::optional<double> wild(field::Reading) { return random_() % 2 ? std::optional<double>(number()) : std::nullopt; }
  double wild(field::Size) { return random_() % 3 ? static_cast<double>(random_() >> 24) : -static_cast<double>(random_() % 2); }

  Cell cell(int rank) {
    Cell c;
#define FIGURE(kind, figure, ...) c.figure = wild(field::kind());
#include "align/step_fields.def"
    c.rank = rank;
    for (float& value : c.ms) value = random_() % 3 ? 0 : ms();
    c.wall_ms = random_() % 9 ? 0 : ms();
    for (float value : c.ms) c.wall_ms += std::isfinite(value) ? value : 0;
    c.end_ns = static_cast<int64_t>(random_() >> 8);
    c.gpu = random_() % 3 == 0;
    if (c.gpu) {
      for (float& value : c.host_ms) value = random_() % 3 ? 0 : ms();
      for (float value : c.host_ms) c.host_wall_ms += std::isfinite(value) ? value : 0;
      for (Category phase : kLaunchPhases) c.launching_ms[index(phase)] = static_cast<float>(random_() % 1'000) * 0.01f;
    }
    return c;
  }

  std::mt19937_64 random_;
  int ranks_;
  uint32_t step_ = 0;
};

}  // namespace stepscope::examples
