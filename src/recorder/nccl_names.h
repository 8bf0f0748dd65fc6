// NCCL's strings to numbers. All accept null and unknown text. No allocation; a few ns.
#pragma once

#include <cstdint>

#include "blackbox/event_kind.h"

namespace stepscope::recorder::nccl {

CollectiveOp op_of(const char* func) noexcept;           // "AllReduce", "ncclAllReduce", "Send", …
uint32_t datatype_bytes(const char* datatype) noexcept;  // "ncclFloat32" → 4; unknown → 0
NcclAlgo algo_of(const char* algo) noexcept;             // "RING", …
NcclProto proto_of(const char* proto) noexcept;          // "LL128", …

}  // namespace stepscope::recorder::nccl
