// A rank that others wait for: the one place where the kinds of stragglers are opened. What the rank is late with names
// the kind; chronic lateness (rules_straggler.cc) and pauses now and then (rules_pause.cc) share it. Pure.
#pragma once

#include <optional>

#include "diagnose/rule_input.h"

namespace stepscope {

enum class Lateness {
  kChronic,    // in most steps
  kTransient,  // in some steps, long
};

// Phase: what explains the lateness, nullopt = no single one.
FindingKind kind_of_late_rank(Lateness lateness, std::optional<Category> phase);

// Begins the finding: kind, rank, who waits, phase, pattern, and what to do.
FindingBuilder late_rank(const RuleInput& in, Lateness lateness, int rank, std::optional<Category> phase,
                         Cause cause = Cause::kNone);

}  // namespace stepscope
