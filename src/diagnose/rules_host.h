// Rules over what was sampled from outside: host, cgroups, process trees, devices. Pure: facts in, findings out; the
// same facts give the same findings. The rules are those of window kHost (rules.def).
//
// The facts are those of one node; call once per node. Costs are shares of wall time where the facts measure lost time
// (run-queue delay, throttling), else 0: then the severity follows from docs/design.md, Findings, for kinds without a
// cost.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "align/host_facts.h"
#include "diagnose/finding.h"
#include "diagnose/host_thresholds.h"
#include "diagnose/snapshot.h"

namespace stepscope {

// Findings of section "system" and "process", worst first. `detected_step` and the steps are filled where the facts
// carry steps.
std::vector<Finding> judge_host(const HostFacts& facts, const HostThresholds& thresholds);

// The sections as users know them. `findings`: what judge_host returned for the same facts (of all nodes, merged).
Section system_section(const HostFacts& facts, const std::vector<Finding>& findings);
Section process_section(const HostFacts& facts, const std::vector<Finding>& findings);

}  // namespace stepscope
