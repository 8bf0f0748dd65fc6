// One rank from outside: its own process and the processes below it, turned into bounded series. Sums over workers are
// of those alive at the sample.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "align/host_facts.h"
#include "sampler/process.h"
#include "sampler/series.h"
#include "sampler/small_file.h"

namespace stepscope {

class RankProbe {
 public:
  RankProbe(int rank, size_t series_capacity);
  ~RankProbe();
  RankProbe(RankProbe&&) noexcept;
  RankProbe& operator=(RankProbe&&) noexcept;

  int rank() const;
  // Follow this process from now on; the series go on, rates start anew.
  void attach(int pid, uint64_t start_ticks);
  void detach();
  bool attached() const;
  int pid() const;
  void set_steps(uint64_t completed);

  // The set of processes below it, as a search found it. Keeps those it knew, adds up to `room` new ones; returns how
  // many are not followed.
  struct Found {
    int pid;
    uint64_t start_ticks;
  };
  size_t set_workers(const std::vector<Found>& found, size_t room, uint64_t now_ns);
  size_t process_count() const;

  // One sample of everything but the memory maps.
  void sample(int proc_fd, uint64_t now_ns, SmallFile& file);
  // The memory of the rank's own process alone, between two of these.
  void sample_memory(int proc_fd, uint64_t now_ns, SmallFile& file);
  // When the memory maps of the process that waits longest may be read (0 = never read yet); UINT64_MAX = none.
  uint64_t maps_due_ns(uint64_t interval_ns) const;
  // Reads that process's; returns what it cost.
  uint64_t read_maps(int proc_fd, uint64_t now_ns, uint64_t interval_ns, SmallFile& file);

  void fill(RankProcess& out) const;
  // "signal: reason", each once.
  const std::vector<std::string>& unavailable() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
