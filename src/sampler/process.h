// One process, followed from outside by its pid and start time. Four to six small files per sample; its memory maps
// (USS, PSS) only when asked, since reading them walks its page tables under its own mmap lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sampler/small_file.h"

namespace stepscope {

struct ProcessStat {
  std::array<char, 17> name{};  // of the main thread, at most 16 bytes
  char state = '?';
  int ppid = 0, threads = 0;
  uint64_t cpu_ticks = 0, major_faults = 0, start_ticks = 0;
  uint64_t start_stack = 0;  // equal in parent and child: forked without exec; 0 = not readable
};
std::optional<ProcessStat> parse_process_stat(std::string_view text);

struct ProcessStatus {
  double rss_bytes = 0, anon_bytes = 0, file_bytes = 0, shmem_bytes = 0, swap_bytes = 0;
  std::optional<uint64_t> voluntary_switches, involuntary_switches;  // main thread
  std::optional<int> affinity_cores;
  double held_bytes() const { return anon_bytes + shmem_bytes + swap_bytes; }
};
// nullopt for a kernel thread or zombie (no memory).
std::optional<ProcessStatus> parse_process_status(std::string_view text);

struct ProcessIo {
  uint64_t rchar = 0, read_bytes = 0, write_bytes = 0;
};
std::optional<ProcessIo> parse_process_io(std::string_view text);

struct ProcessMaps {
  double rss_bytes = 0, pss_bytes = 0, uss_bytes = 0;
  double shared_anon_bytes = 0;  // dirty pages that other processes map too: after a fork, what is not copied yet
};
std::optional<ProcessMaps> parse_smaps_rollup(std::string_view text);

// What one sample says. Rates cover the time since the previous sample; the first one has none.
struct ProcessSample {
  ProcessStat stat;
  ProcessStatus status;
  std::optional<double> cpu_cores, run_delay_share, voluntary_per_s, involuntary_per_s, major_faults_per_s;
  std::optional<double> read_bytes_per_s, rchar_per_s, write_bytes_per_s;
};

class Process {
 public:
  // `start_ticks` 0: whatever runs under the pid at the first sample.
  Process(int pid, uint64_t start_ticks) : pid_(pid), start_ticks_(start_ticks) {}

  // False when the process is gone, a zombie, or the pid belongs to another one by now. `proc_fd`: the folder /proc.
  bool sample(int proc_fd, uint64_t now_ns, SmallFile& file);
  // Reads the memory maps and remembers the first and the newest reading.
  bool read_maps(int proc_fd, uint64_t now_ns, SmallFile& file);
  // Its memory now, between samples; rates are not touched. Nothing where that cannot be read.
  std::optional<ProcessStatus> memory(int proc_fd, SmallFile& file) const;
  // Kernel function the main thread sleeps in; "" when it runs or this is not readable.
  std::string wait_channel(int proc_fd, SmallFile& file) const;

  int pid() const { return pid_; }
  uint64_t start_ticks() const { return start_ticks_; }
  bool alive() const { return alive_; }
  bool sampled() const { return last_ns_ != 0; }
  const ProcessSample& last() const { return last_; }
  const std::optional<ProcessMaps>& first_maps() const { return first_maps_; }
  const std::optional<ProcessMaps>& last_maps() const { return last_maps_; }
  uint64_t first_maps_ns() const { return first_maps_ns_; }
  uint64_t last_maps_ns() const { return last_maps_ns_; }
  int maps_readings() const { return maps_readings_; }
  // When the maps may be read again: `interval_ns` after the last time, later where reading took long, so that its
  // mmap lock is held for 0.2 % of the time at most (about 25 ms per GB of 4 KiB pages were measured).
  uint64_t maps_due_ns(uint64_t interval_ns) const;
  uint64_t maps_cost_ns() const { return maps_cost_ns_; }
  int maps_error() const { return maps_error_; }
  int io_error() const { return io_error_; }
  int schedstat_error() const { return schedstat_error_; }

 private:
  void rates(const ProcessStat& stat, const std::optional<ProcessStatus>& status, double seconds);
  void sample_schedstat(int proc_fd, double seconds, SmallFile& file);
  void sample_io(int proc_fd, double seconds, SmallFile& file);

  int pid_;
  uint64_t start_ticks_;
  bool alive_ = true;
  uint64_t last_ns_ = 0;
  ProcessSample last_;
  std::optional<uint64_t> run_delay_ns_;
  std::optional<ProcessIo> io_;
  std::optional<ProcessMaps> first_maps_, last_maps_;
  uint64_t first_maps_ns_ = 0, last_maps_ns_ = 0, maps_cost_ns_ = 0;
  int maps_readings_ = 0;
  int maps_error_ = 0, io_error_ = 0, schedstat_error_ = 0;
};

}  // namespace stepscope
