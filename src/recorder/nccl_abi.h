// NCCL's profiler plugin interface, versions 3 to 6, declared by hand: NCCL looks for a data symbol ncclProfiler_vN in
// the library named by NCCL_PROFILER_PLUGIN, newest version first, and calls through it. Layout facts only; the offsets
// were measured on x86-64 and are asserted below. Version 6 adds events of copy-engine collectives to version 5.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stepscope::recorder::nccl {

inline constexpr int kSuccess = 0;

// Event types, also bits of the activation mask.
inline constexpr uint64_t kGroup = 1 << 0, kColl = 1 << 1, kP2p = 1 << 2, kProxyOp = 1 << 3, kProxyStep = 1 << 4,
                          kProxyCtrl = 1 << 5, kKernelCh = 1 << 6, kNetPlugin = 1 << 7, kGroupApi = 1 << 8,
                          kCollApi = 1 << 9, kP2pApi = 1 << 10, kKernelLaunch = 1 << 11, kCeColl = 1 << 12,
                          kCeSync = 1 << 13, kCeBatch = 1 << 14;
inline constexpr int kStateKernelChStop = 22;

using LogFunction = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// ---- what an event describes: one struct per union member ----

struct CollV3 {
  const char* comm_name;
  uint64_t comm_hash, sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct P2pV3 {
  const char* comm_name;
  uint64_t comm_hash;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};
struct CollV4 {
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
};
struct P2pV4 {
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
};
struct CollV5 {
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels, warps;
  const char *algo, *proto;
  void* parent_group;
};
struct P2pV5 {
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;
};
struct GroupApi {
  bool captured;
  int depth;
};
struct CollApi {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool captured;
};
struct P2pApi {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool captured;
};
struct KernelLaunch {
  void* stream;
};
struct ProxyOp {
  int pid;
  uint8_t channel;
  int peer, steps, chunk_bytes, is_send;
};
struct KernelCh {
  uint8_t channel;
  uint64_t gpu_timer;  // from version 4 on
};
struct CeColl {
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char *datatype, *sync;
  bool intra_batch_sync;
  uint32_t batch, batches, ce_sequence;
  void* stream;
};

struct DescriptorV3 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    CollV3 coll;
    P2pV3 p2p;
    ProxyOp proxy_op;
    KernelCh kernel_ch;
  };
};
struct DescriptorV4 {
  uint8_t type;
  void* parent;
  int rank;
  union {
    CollV4 coll;
    P2pV4 p2p;
    ProxyOp proxy_op;
    KernelCh kernel_ch;
  };
};
struct DescriptorV5 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    GroupApi group_api;
    CollApi coll_api;
    P2pApi p2p_api;
    KernelLaunch kernel_launch;
    CollV5 coll;
    P2pV5 p2p;
    ProxyOp proxy_op;
    KernelCh kernel_ch;
  };
};
struct DescriptorV6 {
  uint64_t type;
  void* parent;
  int rank;
  union {
    GroupApi group_api;
    CollApi coll_api;
    P2pApi p2p_api;
    KernelLaunch kernel_launch;
    CollV5 coll;
    P2pV5 p2p;
    ProxyOp proxy_op;
    KernelCh kernel_ch;
    CeColl ce_coll;
  };
};

// Arguments of a state change; of all of them only the end of a kernel channel is read here.
union StateArgs {
  uint64_t gpu_timer;
  size_t bytes;
  void* data;
};

static_assert(offsetof(DescriptorV3, coll.sequence) == 40 && offsetof(DescriptorV3, coll.algo) == 104);
static_assert(offsetof(DescriptorV4, coll.sequence) == 24 && offsetof(DescriptorV4, coll.count) == 56 &&
              offsetof(DescriptorV4, coll.algo) == 88 && sizeof(DescriptorV4) == 104);
static_assert(offsetof(DescriptorV5, coll.sequence) == 24 && offsetof(DescriptorV5, coll.count) == 56 &&
              offsetof(DescriptorV5, coll.algo) == 88 && sizeof(DescriptorV5) == 112);
static_assert(offsetof(DescriptorV5, coll_api.stream) == 56 && offsetof(DescriptorV5, p2p_api.stream) == 48 &&
              offsetof(DescriptorV5, kernel_launch.stream) == 24);
static_assert(offsetof(DescriptorV6, ce_coll.stream) == 104 && sizeof(DescriptorV6) == 112);
static_assert(offsetof(DescriptorV5, kernel_ch.gpu_timer) == 32 && offsetof(DescriptorV4, kernel_ch.gpu_timer) == 32);

// ---- the tables ----

struct TableV3 {
  const char* name;
  int (*init)(void** context, int* mask);
  int (*start_event)(void* context, void** handle, DescriptorV3*);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, StateArgs*);
  int (*finalize)(void* context);
};
struct TableV4 {
  const char* name;
  int (*init)(void** context, int* mask, const char* comm_name, uint64_t comm_hash, int nodes, int ranks, int rank,
              LogFunction);
  int (*start_event)(void* context, void** handle, DescriptorV4*);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, StateArgs*);
  int (*finalize)(void* context);
};
template <class Descriptor>
struct TableV56 {
  const char* name;
  int (*init)(void** context, uint64_t comm_hash, int* mask, const char* comm_name, int nodes, int ranks, int rank,
              LogFunction);
  int (*start_event)(void* context, void** handle, Descriptor*);
  int (*stop_event)(void* handle);
  int (*record_state)(void* handle, int state, StateArgs*);
  int (*finalize)(void* context);
};
using TableV5 = TableV56<DescriptorV5>;
using TableV6 = TableV56<DescriptorV6>;

}  // namespace stepscope::recorder::nccl
