// What only a node's own agent sees of its ranks, beside their steps and lives: findings about its host, how processes
// and devices are used, and where each rank stands while the job seems to stand still. The aggregator judges by it as
// if it had looked itself. Plain values; part of a node frame (node_frame.h).
#pragma once

#include <map>
#include <vector>

#include "diagnose/device_room.h"
#include "diagnose/finding.h"
#include "diagnose/run_context.h"
#include "diagnose/standing.h"

namespace stepscope {

struct HostSight {
  static constexpr size_t kMostFindings = 256, kMostRanks = 1024, kMostTenants = 64;

  std::vector<Finding> findings;  // of the run as a whole: told once, when it is over on the node
  std::vector<ProcessUse> uses;
  std::map<int, DeviceRoom> rooms;  // by rank

  bool empty() const { return findings.empty() && uses.empty() && rooms.empty(); }
};

// Bounds of a JobStanding in a frame; of each group the newest kMostOps operations are told.
inline constexpr size_t kMostStandingRanks = 1024, kMostStandingGroups = 64, kMostOps = 16, kMostStackFrames = 128;

}  // namespace stepscope
