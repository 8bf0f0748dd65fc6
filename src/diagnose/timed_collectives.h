// The table of collectives with known ends (on the device: NCCL; on the host: where completions were stamped): per
// communicator, operation and size class how much, how long, and at what bus bandwidth. Clock-free: of the ranks in one
// collective the shortest duration is the transfer, what the others took beyond it is waiting. Pure; O(operations of
// the rows).
#pragma once

#include <string_view>
#include <vector>

#include "align/device_ops.h"  // CollectiveOp
#include "analyze/attribution.h"
#include "analyze/rows.h"
#include "diagnose/snapshot.h"

namespace stepscope {

// As c10d spells it: "all_reduce".
std::string_view op_name(CollectiveOp op);

// Smaller operations are latency, their bandwidth says nothing about the link.
inline constexpr uint64_t kLargeOpBytes = 1 << 20;

// Bus bandwidth in GB/s of `bytes` (NCCL's count × element size) among `ranks` in `ms`; 0 where it has no meaning.
// Source: the factors of NCCL's own performance tests (docs/formats/gpu_events.md).
double bus_gb_per_s(CollectiveOp op, uint64_t bytes, size_t ranks, double ms);

// Of the rows in which operations were timed; empty when there are none.
// `half_seen`: of the job some ranks were not seen. What collectives with them took is then not known (transfer,
// bandwidth).
std::vector<CollectiveStat> timed_collectives(const Rows& rows, const Groups& groups, bool half_seen);

}  // namespace stepscope
