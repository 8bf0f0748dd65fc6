// "Healthy" is a claim: it is made of named checks, each with what was measured and what is allowed, and is said only
// when every one of them passed. Pure; of the whole run as far as it is known.
#pragma once

#include <optional>
#include <vector>

#include "diagnose/rule_input.h"
#include "diagnose/snapshot.h"

namespace stepscope {

struct Health {
  std::vector<HealthCheck> checks;  // empty before there are steps enough for a verdict
  // COMPUTE_BOUND or BALANCED where all checks passed; UNEXPLAINED_LOSS where one failed that no finding speaks of.
  std::optional<Finding> word;
};

// `said`: the findings of all sections.
Health health_of(const RuleInput& whole, const std::vector<Finding>& said);

}  // namespace stepscope
