// NCCL without a GPU, for tests: opens a profiler plugin as NCCL does and replays the call sequences of its versions.
//
// The order per operation is that of NCCL's sources: 2.28 and newer (interface 5, 6): GroupApi, CollApi or P2pApi, then
// per launch KernelLaunch start and stop, Group start, one Coll or P2p start per operation, their stops, Group
// stop; 2.26 and 2.27 (interface 3, 4): no API and launch events. Kernel channels are reported later, by
// report_channels(), as the proxy thread does. The parent of an operation is the handle that the API event returned,
// also when that one is stale. Built as libfake_nccl.so as well, with a C interface for tests in Python.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "recorder/nccl_abi.h"

namespace stepscope::recorder {

class FakeNccl {
 public:
  struct Comm {
    void* context = nullptr;
    uint64_t hash = 0;
    int rank = 0, size = 0;
    std::map<std::string, uint64_t> sequence;  // per function, as in NCCL
    std::string label;
  };
  struct Op {
    std::string func = "AllReduce";
    size_t count = 1024;
    std::string datatype = "ncclFloat32";
    int peer = 0;
    bool p2p() const { return func == "Send" || func == "Recv"; }
  };
  struct Task {  // an operation that the proxy thread will report about
    Comm* comm;
    void* handle;
    int channels;
  };

  explicit FakeNccl(int api) : api_(api) {}
  // dlopen(RTLD_NOW | RTLD_LOCAL) and the symbol of this version; the reason in error() on failure.
  bool load(const std::string& path);
  void use(void* table) { table_ = table; }  // instead of load(): a table in this program
  void unload();                             // dlclose, as after the last communicator
  const std::string& error() const { return error_; }

  Comm* comm_init(uint64_t hash, int rank, int size, const char* label = nullptr, int nodes = 1);
  void comm_finalize(Comm* comm);

  // One launch with these operations. `launch` is called where cuLaunchKernelEx would be.
  void run(Comm* comm, const std::vector<Op>& ops, void* stream, bool captured = false,
           void (*launch)(void*) = nullptr);
  // The replay of a captured graph: Group and Coll events without API and launch.
  void replay_graph(Comm* comm, const Op& op);
  void copy_engine(Comm* comm, const Op& op, void* stream, void (*launch)(void*) = nullptr);  // version 6

  // The proxy thread: start, end state and stop of every channel of the tasks since the last call.
  void report_channels(uint64_t gpu_begin_ns, uint64_t gpu_end_ns);
  std::vector<Task> take_tasks();

  // Raw calls, for misuse.
  void* start(Comm* comm, uint64_t type, void* parent, const Op* op = nullptr, void* stream = nullptr,
              bool captured = false, void* parent_group = nullptr, uint64_t gpu_timer = 0);
  void stop(void* handle);
  void state(void* handle, int state, uint64_t gpu_timer);

  int mask() const { return __atomic_load_n(&mask_, __ATOMIC_RELAXED); }
  int failures() const { return failures_; }  // callbacks that did not return success

 private:
  bool asked(uint64_t bits) const { return (static_cast<uint64_t>(static_cast<uint32_t>(mask())) & bits) != 0; }
  void check(int rc) {
    if (rc != 0) __atomic_fetch_add(&failures_, 1, __ATOMIC_RELAXED);
  }
  template <class Descriptor>
  void* call_start(Comm* comm, Descriptor& d);

  int api_;
  void* library_ = nullptr;
  void* table_ = nullptr;
  int mask_ = 0;  // NCCL's global
  int failures_ = 0;
  std::string error_;
  std::vector<Task> tasks_;
  std::vector<std::unique_ptr<Comm>> comms_;
};

}  // namespace stepscope::recorder
