#include "sampler/process.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/clock.h"

namespace stepscope {
namespace {

constexpr uint64_t kMapsCostFactor = 500;
constexpr uint64_t kMaxMapsIntervalNs = 600'000'000'000;

// "1234/stat", without allocating.
struct Path {
  char text[40];
  Path(int pid, const char* name) { std::snprintf(text, sizeof text, "%d/%s", pid, name); }
};

double ticks_per_s() {
  static const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  return ticks > 0 ? ticks : 100;
}

std::optional<double> rate(std::optional<uint64_t> now, std::optional<uint64_t> before, double seconds) {
  if (!now || !before || *now < *before || seconds <= 0) return std::nullopt;
  return static_cast<double>(*now - *before) / seconds;
}

}  // namespace

std::optional<ProcessStat> parse_process_stat(std::string_view text) {
  // The name may hold spaces and brackets: the last closing one ends it.
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open || close + 2 >= text.size()) {
    return std::nullopt;
  }
  ProcessStat s;
  const std::string_view name = text.substr(open + 1, std::min<size_t>(close - open - 1, s.name.size() - 1));
  std::copy(name.begin(), name.end(), s.name.begin());
  text.remove_prefix(close + 1);
  const std::string_view state = take_word(text);
  if (state.size() != 1) return std::nullopt;
  s.state = state[0];
  uint64_t utime = 0, stime = 0;
  for (int field = 4; field <= 28; ++field) {
    std::string_view word = take_word(text);
    const bool negative = word.starts_with('-');
    if (negative) word.remove_prefix(1);
    const auto v = take_u64(word);
    if (!v || !word.empty()) {
      if (field > 22) break;  // what stands after the start time is extra
      return std::nullopt;
    }
    const uint64_t value = negative ? 0 : *v;
    switch (field) {
      case 4: s.ppid = static_cast<int>(std::min<uint64_t>(value, 0x7fffffff)); break;
      case 12: s.major_faults = value; break;
      case 14: utime = value; break;
      case 15: stime = value; break;
      case 20: s.threads = static_cast<int>(std::min<uint64_t>(value, 0x7fffffff)); break;
      case 22: s.start_ticks = value; break;
      case 28: s.start_stack = value; break;
      default: break;
    }
  }
  s.cpu_ticks = utime + stime;
  return s;
}

std::optional<ProcessStatus> parse_process_status(std::string_view text) {
  ProcessStatus s;
  bool memory = false;
  const auto kib = [](std::string_view v) { return static_cast<double>(take_u64(v).value_or(0)) * 1024; };
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view key = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    if (key == "VmRSS") {
      s.rss_bytes = kib(value);
      memory = true;
    } else if (key == "RssAnon")
      s.anon_bytes = kib(value);
    else if (key == "RssFile")
      s.file_bytes = kib(value);
    else if (key == "RssShmem")
      s.shmem_bytes = kib(value);
    else if (key == "VmSwap")
      s.swap_bytes = kib(value);
    else if (key == "voluntary_ctxt_switches")
      s.voluntary_switches = take_u64(value);
    else if (key == "nonvoluntary_ctxt_switches")
      s.involuntary_switches = take_u64(value);
    else if (key == "Cpus_allowed_list")
      s.affinity_cores = count_list(take_word(value));
  }
  return memory ? std::optional(s) : std::nullopt;
}

std::optional<ProcessIo> parse_process_io(std::string_view text) {
  const auto rchar = value_of(text, "rchar"), read = value_of(text, "read_bytes"),
             write = value_of(text, "write_bytes");
  if (!rchar || !read || !write) return std::nullopt;
  return ProcessIo{*rchar, *read, *write};
}

std::optional<ProcessMaps> parse_smaps_rollup(std::string_view text) {
  const auto rss = value_of(text, "Rss"), pss = value_of(text, "Pss");
  const auto clean = value_of(text, "Private_Clean"), dirty = value_of(text, "Private_Dirty");
  if (!rss || !pss || !clean || !dirty) return std::nullopt;
  const uint64_t shared = value_of(text, "Shared_Dirty").value_or(0);
  const auto bytes = [](uint64_t kib) { return static_cast<double>(kib) * 1024; };
  return ProcessMaps{bytes(*rss), bytes(*pss), bytes(*clean) + bytes(*dirty), bytes(shared)};
}

bool Process::sample(int proc_fd, uint64_t now_ns, SmallFile& file) {
  if (!alive_) return false;
  const auto text = file.read(proc_fd, Path(pid_, "stat").text);
  const auto stat = text ? parse_process_stat(*text) : std::nullopt;
  const bool gone = !text && (file.error() == ENOENT || file.error() == ESRCH);
  if (!stat && !gone) return true;  // unreadable for once, not dead
  if (!stat || stat->state == 'Z' || stat->state == 'X' || (start_ticks_ && stat->start_ticks != start_ticks_)) {
    return alive_ = false;
  }
  start_ticks_ = stat->start_ticks;
  const double seconds = last_ns_ && now_ns > last_ns_ ? static_cast<double>(now_ns - last_ns_) * 1e-9 : 0;
  const auto status_text = file.read(proc_fd, Path(pid_, "status").text);
  rates(*stat, status_text ? parse_process_status(*status_text) : std::nullopt, seconds);
  sample_schedstat(proc_fd, seconds, file);
  sample_io(proc_fd, seconds, file);
  last_ns_ = now_ns;
  return true;
}

std::optional<ProcessStatus> Process::memory(int proc_fd, SmallFile& file) const {
  const auto text = file.read(proc_fd, Path(pid_, "status").text);
  return text ? parse_process_status(*text) : std::nullopt;
}

void Process::rates(const ProcessStat& stat, const std::optional<ProcessStatus>& status, double seconds) {
  const bool again = last_ns_ != 0;
  const auto ticks = again ? rate(stat.cpu_ticks, last_.stat.cpu_ticks, seconds) : std::nullopt;
  last_.cpu_cores = ticks ? std::optional(*ticks / ticks_per_s()) : std::nullopt;
  last_.major_faults_per_s = again ? rate(stat.major_faults, last_.stat.major_faults, seconds) : std::nullopt;
  last_.voluntary_per_s = last_.involuntary_per_s = std::nullopt;
  if (status) {
    last_.voluntary_per_s = rate(status->voluntary_switches, last_.status.voluntary_switches, seconds);
    last_.involuntary_per_s = rate(status->involuntary_switches, last_.status.involuntary_switches, seconds);
    last_.status = *status;
  }
  last_.stat = stat;
}

void Process::sample_schedstat(int proc_fd, double seconds, SmallFile& file) {
  last_.run_delay_share = std::nullopt;
  auto text = file.read(proc_fd, Path(pid_, "schedstat").text);
  schedstat_error_ = text ? 0 : file.error();
  std::optional<uint64_t> delay;
  if (text && take_u64(*text)) delay = take_u64(*text);
  // A queue holds one main thread, but the kernel books a long wait at its end, all at once.
  if (const auto r = rate(delay, run_delay_ns_, seconds)) last_.run_delay_share = std::min(1.0, *r * 1e-9);
  run_delay_ns_ = delay;
}

void Process::sample_io(int proc_fd, double seconds, SmallFile& file) {
  const auto text = file.read(proc_fd, Path(pid_, "io").text);
  io_error_ = text ? 0 : file.error();
  const auto io = text ? parse_process_io(*text) : std::nullopt;
  last_.read_bytes_per_s = last_.rchar_per_s = last_.write_bytes_per_s = std::nullopt;
  if (io && io_) {
    last_.read_bytes_per_s = rate(io->read_bytes, io_->read_bytes, seconds);
    last_.rchar_per_s = rate(io->rchar, io_->rchar, seconds);
    last_.write_bytes_per_s = rate(io->write_bytes, io_->write_bytes, seconds);
  }
  io_ = io;
}

bool Process::read_maps(int proc_fd, uint64_t now_ns, SmallFile& file) {
  const uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);  // the kernel's work, not waiting for a core
  const auto text = file.read(proc_fd, Path(pid_, "smaps_rollup").text);
  maps_cost_ns_ = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
  last_maps_ns_ = now_ns;
  maps_error_ = text ? 0 : file.error();
  const auto maps = text ? parse_smaps_rollup(*text) : std::nullopt;
  if (!maps) return false;
  if (!first_maps_) {
    first_maps_ = maps;
    first_maps_ns_ = now_ns;
  }
  last_maps_ = maps;
  ++maps_readings_;
  return true;
}

uint64_t Process::maps_due_ns(uint64_t interval_ns) const {
  if (last_maps_ns_ == 0) return 0;
  return last_maps_ns_ + std::max(interval_ns, std::min(maps_cost_ns_ * kMapsCostFactor, kMaxMapsIntervalNs));
}

std::string Process::wait_channel(int proc_fd, SmallFile& file) const {
  const auto text = file.read(proc_fd, Path(pid_, "wchan").text);
  if (!text || text->empty() || *text == "0" || text->size() > 64) return "";
  return std::string(*text);
}

}  // namespace stepscope
