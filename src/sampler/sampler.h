// Samples host, cgroups, the process trees of ranks and their GPUs from outside, 1 Hz or slower; the memory of few
// ranks in the first minute faster. Owned by the agent.
//
// Threads: one; no thread of its own, nothing blocks (NVML calls may take some ms). Cost: few system calls per process,
// reused buffers, bounded memory whatever the length of the run; memory maps of a process are read at most every 10 s.
// Failure: never throws; what cannot be read is absent from the facts, with its reason in `unavailable` once. A pid is
// followed only while its start time is the one it was added with.
#pragma once

#include <cstdint>
#include <memory>

#include "align/host_facts.h"
#include "sampler/proc_root.h"

namespace stepscope {

class NvmlApi;

struct SamplerOptions {
  ProcRoot roots;
  uint64_t host_interval_ns = 1'000'000'000;  // host, cgroups, processes
  uint64_t early_memory_interval_ns = 0;      // of few ranks at first: growth in a run of seconds; 0 = as the rest
  uint64_t tree_interval_ns = 2'000'000'000;  // search for new descendants
  uint64_t maps_interval_ns =
      10'000'000'000;  // smaps_rollup per process; raised to 10 s when lower, stretched by its cost
  uint64_t device_interval_ns = 1'000'000'000;
  size_t max_processes = 512;  // followed in all; more are counted, not followed
  size_t max_ranks = 256;
  size_t series_capacity = 256;   // points per series; thinned beyond
  bool devices = true;            // false: never touch NVML
  std::shared_ptr<NvmlApi> nvml;  // null: the system's library, opened when a rank has opened CUDA
  int node = 0;
};

class Sampler {
 public:
  explicit Sampler(SamplerOptions options = {});
  ~Sampler();
  Sampler(Sampler&&) noexcept;
  Sampler& operator=(Sampler&&) noexcept;

  // Follow a rank. `start_ticks`: field 22 of /proc/<pid>/stat, 0 = whatever runs under that pid now. Adding a rank
  // again with another process (elastic restart) goes on with the same series. `local_rank` -1: what its environment
  // says.
  void add_rank(int rank, int pid, uint64_t start_ticks, int local_rank = -1);
  // The process is gone; its facts stay.
  void remove_rank(int rank);
  // How many steps the rank has completed, 0 too: start-up and teardown are left out of verdicts then, growth is told
  // per step. A rank for which this is never called is judged over its whole life, per second.
  void set_steps(int rank, uint64_t completed);

  // Called by the agent's loop as often as it likes; decides itself what is due. `now_ns`: CLOCK_MONOTONIC, not
  // decreasing.
  void sample(uint64_t now_ns);
  // When something is next due.
  uint64_t next_due_ns() const;

  HostFacts facts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
