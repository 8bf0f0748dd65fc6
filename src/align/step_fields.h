// The figures of one rank in one step (step_fields.def): as the builder collects them (StepFacts, a base of RankStep)
// and as the step table keeps them (CellFigures, a base of Cell). Plain values; nothing here allocates.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace stepscope {

// The kinds of figures: the type in RankStep and in Cell, what stands for "not known" in each (0 where nothing does),
// and the way from one to the other. The ways back bound what a damaged file may hold.
namespace field {

struct Time {
  using Fact = int64_t;  // ns
  using Figure = float;  // ms
  static constexpr Fact kFact = 0;
  static constexpr Figure kFigure = 0;
  static Figure figure(Fact ns) { return static_cast<float>(static_cast<double>(ns) * 1e-6); }
  static Fact fact(Figure ms) {
    constexpr double kMostNs = 1e18;
    return std::isfinite(ms) ? std::llround(std::clamp(static_cast<double>(ms) * 1e6, -kMostNs, kMostNs)) : 0;
  }
};

struct MeasuredTime {
  using Fact = int64_t;
  using Figure = float;
  static constexpr Fact kFact = -1;
  static constexpr Figure kFigure = -1;
  static bool known(Fact ns) { return ns >= 0; }
  static Figure figure(Fact ns) { return known(ns) ? Time::figure(ns) : kFigure; }
  static Fact fact(Figure ms) { return ms >= 0 ? Time::fact(ms) : kFact; }
};

struct CoarseTime : MeasuredTime {};  // where the run file need not be exact

struct Count {
  using Fact = uint32_t;
  using Figure = uint32_t;
  static constexpr Fact kFact = 0;
  static constexpr Figure kFigure = 0;
  static Figure figure(Fact count) { return count; }
  static Fact fact(Figure count) { return count; }
};

struct Number {
  using Fact = int32_t;
  using Figure = int32_t;
  static constexpr Fact kFact = -1;
  static constexpr Figure kFigure = -1;
  static bool known(Fact number) { return number >= 0; }
  static Figure figure(Fact number) { return number; }
  static Fact fact(Figure number) { return number; }
};

struct Total {
  using Fact = uint64_t;
  using Figure = uint64_t;
  static constexpr Fact kFact = 0;
  static constexpr Figure kFigure = 0;
  static Figure figure(Fact count) { return count; }
  static Fact fact(Figure count) { return count; }
};

struct Hash : Total {};

struct Amount {
  using Fact = double;
  using Figure = double;
  static constexpr Fact kFact = 0;
  static constexpr Figure kFigure = 0;
  static Figure figure(Fact amount) { return amount; }
  static Fact fact(Figure amount) { return amount; }
};

struct Reading {
  using Fact = std::optional<double>;
  using Figure = std::optional<double>;
  static constexpr Fact kFact = std::nullopt;
  static constexpr Figure kFigure = std::nullopt;
  static bool known(const Fact& value) { return value.has_value(); }
  static Figure figure(const Fact& value) { return value; }
  static Fact fact(const Figure& value) { return value; }
};

struct Size {
  using Fact = uint64_t;
  using Figure = double;
  static constexpr Fact kFact = 0;
  static constexpr Figure kFigure = -1;
  static Figure figure(Fact bytes) { return static_cast<double>(bytes); }
  static Fact fact(Figure bytes) { return static_cast<uint64_t>(std::isnan(bytes) ? 0 : std::clamp(bytes, 0.0, 1e18)); }
};

struct SizeOnceRead : Size {  // 0 = not read in this step
  static bool known(Fact bytes) { return bytes > 0; }
  static Figure figure(Fact bytes) { return known(bytes) ? Size::figure(bytes) : kFigure; }
};

}  // namespace field

struct FetchStats {
#define FETCH_FIELD(kind, member, ...) field::kind::Fact member = field::kind::kFact;
#include "align/step_fields.def"
  int64_t longest_ns = 0;

  void add(const FetchStats& later);
};

// What the allocator said during the step. It is read at two boundaries, not at each in every step: at the begin of
// backward, near the top of the step, and after the optimizer, when only what outlives the step is left.
struct DeviceMemory {
#define MEMORY_FIELD(kind, member, ...) field::kind::Fact member = field::kind::kFact;
#include "align/step_fields.def"
  uint64_t device_allocs = 0;
  bool near_top = false;

  void add(const DeviceMemory& later);
};

struct StepFacts {
#define STEP_FIELD(kind, member, ...) field::kind::Fact member = field::kind::kFact;
#define STEP_ONLY(kind, member, ...) field::kind::Fact member = field::kind::kFact;
#include "align/step_fields.def"
  FetchStats fetch;
  std::optional<DeviceMemory> memory;

  // `later`: the part of the same step that follows.
  void join(const StepFacts& later);
};

struct CellFigures {
#define FIGURE(kind, figure, ...) field::kind::Figure figure = field::kind::kFigure;
#include "align/step_fields.def"
};

// The figures that a step told by itself; the others stay as they are.
void set_figures(CellFigures& figures, const StepFacts& facts);
// Back again, of a step that comes from a run file.
void set_facts(StepFacts& facts, const CellFigures& figures);

}  // namespace stepscope
