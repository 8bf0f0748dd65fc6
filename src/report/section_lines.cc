#include "report/section_lines.h"

#include <algorithm>
#include <cmath>

#include "base/text_format.h"
#include "report/narrative.h"

namespace stepscope {
namespace {

// Values are taken out as they are said; what is left at the end nobody has said.
class Values {
 public:
  explicit Values(const std::map<std::string, std::optional<double>>& values) : left_(values) {
    std::erase_if(left_, [](const auto& entry) { return !entry.second || !std::isfinite(*entry.second); });
  }

  std::optional<double> take(const char* name) {
    const auto found = left_.find(name);
    if (found == left_.end()) return std::nullopt;
    const std::optional<double> value = found->second;
    left_.erase(found);
    return value;
  }
  const std::map<std::string, std::optional<double>>& left() const { return left_; }

 private:
  std::map<std::string, std::optional<double>> left_;
};

// Parts of a sentence, joined by commas; parts without a value are left out.
class Sentence {
 public:
  Sentence& add(std::string part) {
    if (!part.empty()) text_ += (text_.empty() ? "" : ", ") + part;
    return *this;
  }
  // Only what continues a sentence: nothing where it has not begun.
  Sentence& attach(const std::string& part) {
    if (!text_.empty()) text_ += part;
    return *this;
  }
  void into(LabelledLines& lines, const char* label) const {
    if (!text_.empty()) lines.emplace_back(label, text_);
  }

 private:
  std::string text_;
};

std::string count_of(double value) { return format_count(static_cast<uint64_t>(std::llround(std::max(0.0, value)))); }

void say_host_cpu(Values& v, LabelledLines& lines) {
  Sentence s;
  const auto cores = v.take("cores");
  const std::string of = cores ? formatted(" of {} cores", count_of(*cores)) : std::string();
  if (const auto cpu = v.take("cpu_share")) s.add(format_percent(cpu) + of + " busy");
  if (const auto peak = v.take("cpu_peak_share")) s.add("at most " + format_percent(peak));
  if (const auto load = v.take("load1")) s.add("load " + format_digits(load));
  s.into(lines, "CPU");
}

void say_host_memory(Values& v, LabelledLines& lines) {
  Sentence s;
  const auto total = v.take("memory_total_bytes"), available = v.take("memory_available_min_bytes"),
             share = v.take("memory_used_peak_share"), used = v.take("memory_used_bytes"),
             swap = v.take("swap_used_peak_bytes");
  const std::string part = share ? " (" + format_percent(share) + ")" : std::string();
  if (total && available)
    s.add(formatted("{} of {} in use at most{}", format_bytes(*total - *available), format_bytes(total), part));
  else if (total)
    s.add(format_bytes(total) + (share ? formatted(", {} in use at most", format_percent(share)) : ""));
  else if (available)
    s.add("at least " + format_bytes(available) + " available");
  if (used) s.add(format_bytes(used) + " in use");
  if (swap) s.add(*swap > 0 ? format_bytes(swap) + " of swap" : std::string("no swap"));
  s.into(lines, "Memory");
}

void say_pressure(Values& v, LabelledLines& lines) {
  const auto cpu = v.take("cpu_pressure_share"), memory = v.take("memory_pressure_share"),
             io = v.take("io_pressure_share");
  Sentence s;
  if (cpu) s.add(format_percent(cpu) + " for a core");
  if (memory) s.add(format_percent(memory) + " for memory");
  if (io) s.add(format_percent(io) + " for the disk");
  s.attach(" (share of the time)").into(lines, "Tasks wait");
}

void say_devices(Values& v, LabelledLines& lines) {
  const auto count = v.take("gpus");
  Sentence work, body;
  if (count && *count > 0) work.add(count_of(*count));
  if (const auto busy = v.take("gpu_utilization_share")) work.add(format_percent(busy) + " of the time busy");
  if (const auto sm = v.take("gpu_sm_active_share")) work.add("SMs active " + format_percent(sm));
  if (const auto tensor = v.take("gpu_tensor_active_share")) work.add("tensor cores " + format_percent(tensor));
  if (const auto dram = v.take("gpu_dram_active_share")) work.add("memory bus " + format_percent(dram));
  work.into(lines, "GPUs");
  const auto used = v.take("gpu_memory_peak_bytes"), total = v.take("gpu_memory_total_bytes");
  if (used) body.add(format_bytes(used) + (total ? " of " + format_bytes(total) : "") + " in use at most");
  if (const auto hot = v.take("gpu_temperature_max_c")) body.add(formatted("at most {:.0f} °C", *hot));
  const auto power = v.take("gpu_power_mean_w"), limit = v.take("gpu_power_limit_w");
  if (power) body.add(formatted("{:.0f}{} W", *power, limit ? formatted(" of {:.0f}", *limit) : std::string()));
  if (const auto clock = v.take("gpu_sm_clock_mean_mhz")) body.add(formatted("{:.0f} MHz", *clock));
  body.into(lines, "Device");
}

void say_process(Values& v, LabelledLines& lines) {
  Sentence cpu, memory, threads, workers;
  if (const auto cores = v.take("cpu_cores")) cpu.add(format_digits(cores) + " cores per rank");
  if (const auto delay = v.take("run_delay_share")) {
    cpu.add("waits " + format_percent(delay) + " of the time for a core");
    if (const auto worst = v.take("run_delay_worst_share")) cpu.attach(" (worst rank " + format_percent(worst) + ")");
  }
  cpu.into(lines, "CPU");
  if (const auto rss = v.take("rss_peak_bytes")) memory.add(format_bytes(rss) + " resident (RSS)");
  if (const auto pss = v.take("pss_peak_bytes")) memory.add(format_bytes(pss) + " with shared pages split (PSS)");
  if (const auto uss = v.take("uss_peak_bytes")) memory.add(format_bytes(uss) + " private (USS)");
  memory.attach(": at most, of any rank").into(lines, "Memory");
  if (const auto read = v.take("read_bytes_per_s")) lines.emplace_back("Reads", format_bytes(read) + "/s per rank");
  if (const auto most = v.take("threads_max")) threads.add("at most " + count_of(*most) + " per rank");
  threads.into(lines, "Threads");
  if (const auto most = v.take("workers_max"))
    workers.add(*most > 0 ? "at most " + count_of(*most) + " per rank" : std::string("none"));
  if (const auto cores = v.take("worker_cpu_cores")) workers.add(format_digits(cores) + " cores");
  if (const auto uss = v.take("worker_uss_peak_bytes")) workers.add(format_bytes(uss) + " private (USS) at most");
  workers.into(lines, "Workers");
}

void say_device_memory(Values& v, LabelledLines& lines) {
  const auto peak = v.take("peak_bytes"), capacity = v.take("capacity_bytes"), share = v.take("peak_share"),
             reserved = v.take("reserved_bytes"), allocated = v.take("allocated_bytes");
  Sentence s;
  if (peak)
    s.add(format_bytes(peak) + (capacity ? " of " + format_bytes(capacity) : "") + " at the peak" +
          (share ? " (" + format_percent(share) + ")" : ""));
  if (reserved) s.add(format_bytes(reserved) + " reserved by torch");
  if (allocated) s.add(format_bytes(allocated) + " allocated at the end");
  s.into(lines, "Fullest rank");
}

}  // namespace

LabelledLines section_lines(const std::map<std::string, std::optional<double>>& values) {
  Values v(values);
  LabelledLines lines;
  say_host_cpu(v, lines);
  say_host_memory(v, lines);
  say_pressure(v, lines);
  say_devices(v, lines);
  say_process(v, lines);
  say_device_memory(v, lines);
  std::string rest;
  for (const std::string& phrase : value_phrases(v.left())) rest += (rest.empty() ? "" : " · ") + phrase;
  if (!rest.empty()) lines.emplace_back("Also", rest);
  return lines;
}

}  // namespace stepscope
