#include "sampler/process_glance.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <charconv>

#include "base/file.h"
#include "sampler/process.h"
#include "sampler/small_file.h"

namespace stepscope {
namespace {

constexpr size_t kMostMaps = 8u << 20;

std::string of_thread(int pid, uint32_t thread, const char* file) {
  const std::string process = "/proc/" + std::to_string(pid);
  return thread == 0 ? process + "/" + file : process + "/task/" + std::to_string(thread) + "/" + file;
}

// The hexadecimal mask after `name` in a status file; nothing when it is not there.
std::optional<uint64_t> mask_of(std::string_view status, std::string_view name) {
  const size_t at = status.find(name);
  if (at == status.npos) return std::nullopt;
  const size_t begin = status.find_first_not_of(" \t", at + name.size());
  if (begin == status.npos) return std::nullopt;
  uint64_t mask = 0;
  const auto [end, code] = std::from_chars(status.data() + begin, status.data() + status.size(), mask, 16);
  return code == std::errc() ? std::optional(mask) : std::nullopt;
}

}  // namespace

std::optional<ProcessGlance> glance_at(int pid, uint64_t start_ticks, uint32_t thread) {
  SmallFile file;
  const auto own = file.read(AT_FDCWD, of_thread(pid, 0, "stat").c_str());
  const auto process = own ? parse_process_stat(*own) : std::nullopt;
  if (!process || (start_ticks != 0 && process->start_ticks != start_ticks)) return std::nullopt;
  ProcessGlance glance{process->state, process->cpu_ticks, ""};
  if (thread != 0) {
    const auto text = file.read(AT_FDCWD, of_thread(pid, thread, "stat").c_str());
    if (const auto stat = text ? parse_process_stat(*text) : std::nullopt) {
      glance.state = stat->state;
      glance.cpu_ticks = stat->cpu_ticks;
    }
  }
  if (const auto text = file.read(AT_FDCWD, of_thread(pid, thread, "wchan").c_str()); text && *text != "0")
    glance.wait_channel = std::string(*text);
  return glance;
}

std::string lock_that_all_wait_for(int pid) {
  SmallFile file;
  std::string channel;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  const auto threads = list_dir(tasks, kMostThreadsRead);
  if (!threads) return "";
  for (const std::string& thread : *threads) {
    const auto text = file.read(AT_FDCWD, (tasks + "/" + thread + "/wchan").c_str());
    if (!text || text->find("futex") == text->npos) return "";
    channel = std::string(*text);
  }
  return channel;
}

std::string module_at(int pid, uint64_t address) {
  const auto text = read_file(of_thread(pid, 0, "maps"), kMostMaps);
  if (!text) return "";
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const std::string_view line = std::string_view(*text).substr(at, end - at);
    at = end + 1;
    uint64_t from = 0, to = 0;
    const auto first = std::from_chars(line.data(), line.data() + line.size(), from, 16);
    if (first.ec != std::errc() || first.ptr == line.data() + line.size()) continue;
    const auto second = std::from_chars(first.ptr + 1, line.data() + line.size(), to, 16);
    if (second.ec != std::errc() || address < from || address >= to) continue;
    const size_t slash = line.rfind('/'), bracket = line.find('[');
    if (slash != line.npos) return std::string(line.substr(slash + 1));
    return bracket == line.npos ? "" : std::string(line.substr(bracket));
  }
  return "";
}

std::map<uint32_t, uint64_t> ticks_of_namesakes(int pid, uint32_t thread) {
  std::map<uint32_t, uint64_t> ticks;
  SmallFile file;
  const auto stat_of = [&](uint32_t id) {
    const auto text = file.read(AT_FDCWD, of_thread(pid, id, "stat").c_str());
    return text ? parse_process_stat(*text) : std::nullopt;
  };
  const auto own = stat_of(thread);
  const auto names = list_dir("/proc/" + std::to_string(pid) + "/task", kMostThreadsRead);
  if (!own || !names) return ticks;
  for (const std::string& name : *names) {
    uint32_t id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ec != std::errc() || id == 0) continue;
    if (const auto stat = stat_of(id); stat && stat->name == own->name) ticks[id] = stat->cpu_ticks;
  }
  return ticks;
}

bool sleeps_for_a_time(int pid, uint32_t thread) {
  SmallFile file;
  const auto text = file.read(AT_FDCWD, of_thread(pid, thread, "syscall").c_str());  // "230 0x0 0x0 …"
  if (!text) return false;
  long call = -1;
  const auto [end, code] = std::from_chars(text->data(), text->data() + text->size(), call);
  if (code != std::errc()) return false;  // "running"
#ifdef SYS_nanosleep
  if (call == SYS_nanosleep) return true;
#endif
  if (call != SYS_clock_nanosleep) return false;
  const size_t second = text->find(" 0x", static_cast<size_t>(end - text->data()) + 1);
  uint64_t flags = TIMER_ABSTIME;
  if (second != text->npos) std::from_chars(text->data() + second + 3, text->data() + text->size(), flags, 16);
  return !(flags & TIMER_ABSTIME);
}

bool listens_to(int pid, uint32_t thread, int signal) {
  const auto text = read_file(of_thread(pid, thread, "status"), 16 << 10);
  if (!text || signal < 1 || signal > 64) return false;
  const uint64_t bit = 1ull << (signal - 1);
  const auto caught = mask_of(*text, "SigCgt:"), blocked = mask_of(*text, "SigBlk:");
  return caught && blocked && (*caught & bit) && !(*blocked & bit);
}

}  // namespace stepscope
