// The node as a whole: CPU, load, memory, swap, faults, pressure stall information. Six small files per sample.
// Rates need two samples; a counter that went backwards (a CPU went offline) skips one interval.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "align/host_facts.h"
#include "base/fd.h"
#include "sampler/proc_root.h"
#include "sampler/series.h"
#include "sampler/small_file.h"

namespace stepscope {

// Jiffies of one "cpu" line.
struct CpuTimes {
  uint64_t busy = 0, idle = 0, iowait = 0, steal = 0;
  uint64_t total() const { return busy + idle + iowait + steal; }
};
// "cpu3 1 2 3 …" without its first word; nullopt when the four oldest fields are missing.
std::optional<CpuTimes> parse_cpu_times(std::string_view fields);
// "some avg10=0.00 … total=123": the microseconds of the line that begins with `kind`.
std::optional<uint64_t> parse_pressure_us(std::string_view text, std::string_view kind);

class HostProbe {
 public:
  HostProbe(const ProcRoot& roots, size_t series_capacity);

  void sample(uint64_t now_ns);
  // Writes host, cores and totals.
  void fill(HostFacts& facts) const;

 private:
  // A counter turned into a rate.
  struct Rate {
    std::optional<uint64_t> last;
    std::optional<double> per_s(std::optional<uint64_t> now, double seconds);
  };

  void sample_stat(int64_t now, double seconds);
  void sample_memory(int64_t now);
  void sample_vmstat(int64_t now, double seconds);
  void sample_pressure(int64_t now, double seconds);
  void missing(const char* what);

  Fd root_;
  SmallFile file_;
  uint64_t last_ns_ = 0;
  std::optional<CpuTimes> cpu_;
  std::vector<CpuTimes> cores_, cores_now_;
  int core_count_ = 0;
  std::optional<double> memory_total_, swap_total_;
  Rate context_switches_, faults_, major_faults_, swap_in_, swap_out_;
  std::array<Rate, 5> pressure_;
  double page_bytes_;

  Series cpu_share_, max_core_share_, iowait_share_, steal_share_, load1_, switches_per_s_, faults_per_s_;
  Series major_faults_per_s_, available_, swap_used_, swap_in_per_s_, swap_out_per_s_;
  std::array<Series, 5> pressure_share_;
  std::vector<std::string> unavailable_;
};

}  // namespace stepscope
