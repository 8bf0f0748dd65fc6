#include "align/step_fields.h"

namespace stepscope {

namespace {

// How two parts of a step join, the later into the earlier. `better`: the later one's choice stands for the step.
template <class Kind>
using Fact = typename Kind::Fact;

template <class Kind>
void sum(Fact<Kind>& mine, const Fact<Kind>& later, bool) {
  mine += later;
}
template <class Kind>
void unite(Fact<Kind>& mine, const Fact<Kind>& later, bool) {
  mine |= later;
}
template <class Kind>
void differ(Fact<Kind>& mine, const Fact<Kind>& later, bool) {
  mine ^= later;
}
template <class Kind>
void last(Fact<Kind>& mine, const Fact<Kind>& later, bool) {
  mine = later;
}
template <class Kind>
void last_known(Fact<Kind>& mine, const Fact<Kind>& later, bool) {
  if (Kind::known(later)) mine = later;
}
template <class Kind>
void first_known(Fact<Kind>& mine, const Fact<Kind>& later, bool) {
  if (!Kind::known(mine)) mine = later;
}
template <class Kind>
void chosen(Fact<Kind>& mine, const Fact<Kind>& later, bool better) {
  if (better) mine = later;
}

}  // namespace

void FetchStats::add(const FetchStats& later) {
  const bool better = later.longest_ns >= longest_ns;
#define FETCH_FIELD(kind, member, joins, ...) joins<field::kind>(member, later.member, better);
#include "align/step_fields.def"
  longest_ns = std::max(longest_ns, later.longest_ns);
}

void DeviceMemory::add(const DeviceMemory& later) {
  const bool better = later.near_top || !near_top;
#define MEMORY_FIELD(kind, member, joins, ...) joins<field::kind>(member, later.member, better);
#include "align/step_fields.def"
  device_allocs = later.device_allocs;
  near_top = near_top || later.near_top;
}

void StepFacts::join(const StepFacts& later) {
#define STEP_FIELD(kind, member, joins, ...) joins<field::kind>(member, later.member, true);
#define STEP_ONLY(kind, member, joins) joins<field::kind>(member, later.member, true);
#include "align/step_fields.def"
  fetch.add(later.fetch);
  if (later.memory && memory)
    memory->add(*later.memory);
  else if (later.memory)
    memory = later.memory;
}

void set_figures(CellFigures& figures, const StepFacts& facts) {
#define STEP_FIELD(kind, member, joins, to, ...) figures.to = field::kind::figure(facts.member);
#define FETCH_FIELD(kind, member, joins, to, ...) figures.to = field::kind::figure(facts.fetch.member);
#include "align/step_fields.def"
  if (!facts.memory) return;
#define MEMORY_FIELD(kind, member, joins, to, ...) figures.to = field::kind::figure(facts.memory->member);
#include "align/step_fields.def"
}

void set_facts(StepFacts& facts, const CellFigures& figures) {
#define STEP_FIELD(kind, member, joins, from, ...) facts.member = field::kind::fact(figures.from);
#define FETCH_FIELD(kind, member, joins, from, ...) facts.fetch.member = field::kind::fact(figures.from);
#include "align/step_fields.def"
  if (figures.allocated_bytes < 0) return;
  DeviceMemory& memory = facts.memory.emplace();
#define MEMORY_FIELD(kind, member, joins, from, ...) memory.member = field::kind::fact(figures.from);
#include "align/step_fields.def"
  memory.near_top = figures.allocated_bytes != figures.held_bytes;
}

}  // namespace stepscope
