#include "sampler/host.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"

namespace stepscope {
namespace {

constexpr size_t kMaxCores = 4096;

struct PressureLine {
  const char *file, *kind;
};
// In the order of HostSeries.
constexpr std::array<PressureLine, 5> kPressure = {{{"pressure/cpu", "some"},
                                                    {"pressure/memory", "some"},
                                                    {"pressure/memory", "full"},
                                                    {"pressure/io", "some"},
                                                    {"pressure/io", "full"}}};

std::optional<double> share(uint64_t now, uint64_t before, uint64_t total_now, uint64_t total_before) {
  if (now < before || total_now <= total_before) return std::nullopt;
  return std::min(1.0, static_cast<double>(now - before) / static_cast<double>(total_now - total_before));
}

std::optional<double> kib(std::optional<uint64_t> v) {
  return v ? std::optional(static_cast<double>(*v) * 1024) : std::nullopt;
}

void add(Series& s, int64_t now, std::optional<double> v) {
  if (v) s.add(now, *v);
}

}  // namespace

std::optional<CpuTimes> parse_cpu_times(std::string_view fields) {
  std::array<uint64_t, 8> f{};  // user nice system idle iowait irq softirq steal; guest is part of user
  for (size_t i = 0; i < f.size(); ++i) {
    const auto v = take_u64(fields);
    if (!v && i < 4) return std::nullopt;
    f[i] = v.value_or(0);
  }
  return CpuTimes{f[0] + f[1] + f[2] + f[5] + f[6], f[3], f[4], f[7]};
}

std::optional<uint64_t> parse_pressure_us(std::string_view text, std::string_view kind) {
  while (!text.empty()) {
    std::string_view line = take_line(text);
    if (!line.starts_with(kind)) continue;
    const size_t at = line.find("total=");
    if (at == std::string_view::npos) return std::nullopt;
    line.remove_prefix(at + 6);
    return take_u64(line);
  }
  return std::nullopt;
}

std::optional<double> HostProbe::Rate::per_s(std::optional<uint64_t> now, double seconds) {
  const auto before = last;
  last = now;
  if (!now || !before || *now < *before || seconds <= 0) return std::nullopt;
  return static_cast<double>(*now - *before) / seconds;
}

HostProbe::HostProbe(const ProcRoot& roots, size_t series_capacity)
    : root_(::open(roots.proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
      page_bytes_(static_cast<double>(::sysconf(_SC_PAGESIZE))) {
  for (Series* s :
       {&cpu_share_, &max_core_share_, &iowait_share_, &steal_share_, &load1_, &switches_per_s_, &faults_per_s_,
        &major_faults_per_s_, &available_, &swap_used_, &swap_in_per_s_, &swap_out_per_s_}) {
    *s = Series(series_capacity);
  }
  pressure_share_.fill(Series(series_capacity));
}

void HostProbe::missing(const char* what) {
  const std::string prefix = std::string(what) + ": ";
  for (const std::string& u : unavailable_) {
    if (u.starts_with(prefix)) return;
  }
  unavailable_.push_back(prefix + (file_.error() ? errno_text(file_.error()) : "unknown format"));
}

void HostProbe::sample(uint64_t now_ns) {
  const auto now = static_cast<int64_t>(now_ns);
  const double seconds = last_ns_ && now_ns > last_ns_ ? static_cast<double>(now_ns - last_ns_) * 1e-9 : 0;
  sample_stat(now, seconds);
  if (auto text = file_.read(root_.get(), "loadavg")) {
    const auto whole = take_u64(*text);
    if (whole) {
      double load = static_cast<double>(*whole);
      if (text->size() >= 3 && (*text)[0] == '.') {
        text->remove_prefix(1);
        const auto hundredths = take_u64(*text);
        if (hundredths && *hundredths < 100) load += static_cast<double>(*hundredths) / 100;
      }
      load1_.add(now, load);
    }
  }
  sample_memory(now);
  sample_vmstat(now, seconds);
  sample_pressure(now, seconds);
  last_ns_ = now_ns;
}

void HostProbe::sample_stat(int64_t now, double seconds) {
  auto text = file_.read(root_.get(), "stat");
  std::optional<CpuTimes> all;
  std::optional<uint64_t> switches;
  cores_now_.clear();
  for (std::string_view rest = text.value_or(""); !rest.empty();) {
    std::string_view line = take_line(rest);
    if (line.starts_with("cpu ")) {
      line.remove_prefix(4);
      all = parse_cpu_times(line);
    } else if (line.starts_with("cpu") && cores_now_.size() < kMaxCores) {
      line.remove_prefix(3);
      if (!take_u64(line)) continue;
      if (const auto core = parse_cpu_times(line)) cores_now_.push_back(*core);
    } else if (line.starts_with("ctxt ")) {
      line.remove_prefix(5);
      switches = take_u64(line);
    }
  }
  if (!all) return missing("host cpu");
  if (cpu_) {
    add(cpu_share_, now, share(all->busy, cpu_->busy, all->total(), cpu_->total()));
    add(iowait_share_, now, share(all->iowait, cpu_->iowait, all->total(), cpu_->total()));
    add(steal_share_, now, share(all->steal, cpu_->steal, all->total(), cpu_->total()));
  }
  // Offline cores shift the lines: only compare like with like.
  if (!cores_.empty() && cores_.size() == cores_now_.size()) {
    std::optional<double> most;
    for (size_t i = 0; i < cores_.size(); ++i) {
      const auto s = share(cores_now_[i].busy, cores_[i].busy, cores_now_[i].total(), cores_[i].total());
      if (s && (!most || *s > *most)) most = s;
    }
    add(max_core_share_, now, most);
  }
  add(switches_per_s_, now, context_switches_.per_s(switches, seconds));
  cpu_ = all;
  core_count_ = static_cast<int>(cores_now_.size());
  cores_.swap(cores_now_);
}

void HostProbe::sample_memory(int64_t now) {
  const auto text = file_.read(root_.get(), "meminfo");
  const auto total = kib(value_of(text.value_or(""), "MemTotal"));
  if (!total) return missing("host memory");
  memory_total_ = total;
  add(available_, now, kib(value_of(*text, "MemAvailable")));
  swap_total_ = kib(value_of(*text, "SwapTotal"));
  const auto swap_free = kib(value_of(*text, "SwapFree"));
  if (swap_total_ && swap_free) swap_used_.add(now, std::max(0.0, *swap_total_ - *swap_free));
}

void HostProbe::sample_vmstat(int64_t now, double seconds) {
  const auto text = file_.read(root_.get(), "vmstat");
  if (!text) return missing("page faults and swap rates");
  const auto scaled = [&](std::optional<double> pages) {
    return pages ? std::optional(*pages * page_bytes_) : std::nullopt;
  };
  add(faults_per_s_, now, faults_.per_s(value_of(*text, "pgfault"), seconds));
  add(major_faults_per_s_, now, major_faults_.per_s(value_of(*text, "pgmajfault"), seconds));
  add(swap_in_per_s_, now, scaled(swap_in_.per_s(value_of(*text, "pswpin"), seconds)));
  add(swap_out_per_s_, now, scaled(swap_out_.per_s(value_of(*text, "pswpout"), seconds)));
}

void HostProbe::sample_pressure(int64_t now, double seconds) {
  std::string_view open_file;
  std::optional<std::string_view> text;
  for (size_t i = 0; i < kPressure.size(); ++i) {
    if (kPressure[i].file != open_file) {
      open_file = kPressure[i].file;
      text = file_.read(root_.get(), kPressure[i].file);
    }
    if (!text) {
      missing("pressure stall information");
      continue;
    }
    const auto us_per_s = pressure_[i].per_s(parse_pressure_us(*text, kPressure[i].kind), seconds);
    if (us_per_s) pressure_share_[i].add(now, std::min(1.0, *us_per_s * 1e-6));
  }
}

void HostProbe::fill(HostFacts& facts) const {
  facts.cores = core_count_;
  facts.memory_total_bytes = memory_total_;
  facts.swap_total_bytes = swap_total_;
  facts.host = {cpu_share_.facts(),
                max_core_share_.facts(),
                iowait_share_.facts(),
                steal_share_.facts(),
                load1_.facts(),
                switches_per_s_.facts(),
                faults_per_s_.facts(),
                major_faults_per_s_.facts(),
                available_.facts(),
                swap_used_.facts(),
                swap_in_per_s_.facts(),
                swap_out_per_s_.facts(),
                pressure_share_[0].facts(),
                pressure_share_[1].facts(),
                pressure_share_[2].facts(),
                pressure_share_[3].facts(),
                pressure_share_[4].facts()};
  facts.unavailable.insert(facts.unavailable.end(), unavailable_.begin(), unavailable_.end());
}

}  // namespace stepscope
