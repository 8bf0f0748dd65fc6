#include <dlfcn.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "agent/shm_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/random_hex.h"
#include "cli/doctor_check.h"
#include "cli/python_env.h"
#include "cli/run_places.h"
#include "report/figures.h"
#include "sampler/nvml.h"
#include "sampler/sampler.h"

namespace stepscope {
namespace {

constexpr double kRingBytes = 4 << 20, kSmallestRingBytes = 256 << 10;
constexpr double kComfortableBytes = 16 * kRingBytes;  // two rings for each of eight ranks
constexpr useconds_t kBetweenSamplesUs = 20'000;
constexpr int kPerfOwnProcesses = 2;  // kernel.perf_event_paranoid: up to here one's own may be measured

Check check_shared_memory() {
  Check check{"shared memory", CheckState::kOk, "", true};
  struct statvfs info;
  if (::statvfs("/dev/shm", &info) != 0) {
    return {check.name, CheckState::kMissing, "/dev/shm: " + errno_text(errno) + ": nothing can be recorded", true};
  }
  const double size = static_cast<double>(info.f_blocks) * info.f_frsize,
               free = static_cast<double>(info.f_bavail) * info.f_frsize;
  auto folder = ShmFolder::create(random_hex(16));
  if (!folder) return {check.name, CheckState::kMissing, folder.error().message + ": nothing can be recorded", true};
  folder->remove();
  check.text = "/dev/shm: " + format_bytes(free) + " free of " + format_bytes(size);
  if (free < kSmallestRingBytes) {
    check.state = CheckState::kMissing;
    check.text += ": not even one small black box fits, nothing can be recorded";
  } else if (free < kComfortableBytes) {
    check.state = CheckState::kDegraded;
    check.text +=
        ": black boxes (4 MiB per rank) become smaller, older records are lost sooner; docker run --shm-size=1g";
  }
  return check;
}

Check check_logs(const std::string& logs_dir) {
  std::string at = logs_dir;
  while (!at.empty() && !is_dir(at)) {
    const size_t slash = at.rfind('/');
    at = slash == std::string::npos ? "." : slash == 0 ? "/" : at.substr(0, slash);
  }
  if (::access(at.c_str(), W_OK | X_OK) == 0) return {"logs folder", CheckState::kOk, logs_dir, false};
  return {"logs folder", CheckState::kDegraded,
          logs_dir + ": " + errno_text(errno) + ": the summary is only printed; choose another with --logs-dir", false};
}

// Signals by their names in the summary, and what is not known without them.
constexpr std::pair<const char*, const char*> kSignals[] = {
    {"host cpu", "whether the cores are busy is not known"},
    {"host memory", "whether the memory fills up is not known"},
    {"pressure stall information", "how long tasks stand still for CPU, memory and disk is not known"},
    {"run-queue delay", "whether a rank waits for a core is not known"},
    {"process I/O", "what a rank reads from disk is not known"},
    {"USS and PSS", "memory that workers share is counted in each of them"},
};

Check check_perf() {
  auto text = read_file("/proc/sys/kernel/perf_event_paranoid", 64);
  if (!text)
    return {"perf events", CheckState::kMissing,
            "this kernel has none: a profiler beside stepscope cannot count cycles", false};
  const int level = std::atoi(text->c_str());
  const std::string found = "kernel.perf_event_paranoid = " + std::to_string(level);
  if (level <= kPerfOwnProcesses || ::geteuid() == 0) return {"perf events", CheckState::kOk, found, false};
  return {"perf events", CheckState::kDegraded, found + ": a profiler beside stepscope cannot count cycles", false};
}

Check check_driver() {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return {"CUDA driver", CheckState::kMissing, "no libcuda.so.1: no GPU times; fine for trainings on CPU", false};
  int version = 0;
  const auto ask = reinterpret_cast<int (*)(int*)>(::dlsym(library, "cuDriverGetVersion"));
  if (!ask || ask(&version) != 0 || version == 0) {
    return {"CUDA driver", CheckState::kDegraded, "libcuda.so.1 does not tell its version", false};
  }
  return {"CUDA driver", CheckState::kOk,
          "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10), false};
}

// In the words of the summary ("GPU health: …").
Check check_nvml() {
  auto nvml = open_nvml();
  if (!nvml) return {"GPU health", CheckState::kMissing, nvml.error().message, false};
  auto count = (*nvml)->gpu_count();
  if (!count) return {"GPU health", CheckState::kMissing, count.error().message, false};
  std::string text = "NVML, " + std::to_string(*count) + " GPU" + (*count == 1 ? "" : "s");
  if (*count > 0) {
    if (auto identity = (*nvml)->identity(0)) text += " (" + identity->name + ")";
  }
  return {"GPU health", CheckState::kOk, text, false};
}

// What the agent's sampler can read, tried on this very process.
std::vector<Check> check_sampler() {
  SamplerOptions options;
  options.devices = false;
  options.host_interval_ns = options.tree_interval_ns = 1;
  Sampler sampler(options);
  sampler.add_rank(0, ::getpid(), 0);
  for (int i = 0; i < 2; ++i) {
    sampler.sample(monotonic_ns());
    ::usleep(kBetweenSamplesUs);
  }
  const HostFacts facts = sampler.facts();
  std::vector<Check> checks;
  std::vector<std::string> unavailable = facts.unavailable;
  for (const auto& [signal, meaning] : kSignals) {
    const std::string prefix = std::string(signal) + ": ";
    const auto found = std::find_if(unavailable.begin(), unavailable.end(),
                                    [&](const std::string& u) { return u.starts_with(prefix); });
    if (found == unavailable.end()) {
      checks.push_back({signal, CheckState::kOk, "readable", false});
      continue;
    }
    checks.push_back({signal, CheckState::kMissing, found->substr(prefix.size()) + ": " + meaning, false});
    unavailable.erase(found);
  }
  for (const std::string& text : unavailable) {
    const size_t colon = std::min(text.find(": "), text.size());
    checks.push_back(
        {text.substr(0, colon), CheckState::kMissing, colon < text.size() ? text.substr(colon + 2) : "", false});
  }
  for (const CgroupFacts& group : facts.cgroups) {
    std::string limits =
        group.memory_limit_bytes ? "memory " + format_bytes(group.memory_limit_bytes) : "no memory limit";
    limits += group.cpu_limit_cores ? ", " + format_value("", group.cpu_limit_cores) + " cores" : ", no CPU limit";
    checks.push_back({"cgroup limits", CheckState::kOk, limits, false});
  }
  if (facts.cgroups.empty()) {
    checks.push_back({"cgroup limits", CheckState::kMissing,
                      "no control group can be read: limits of a container are not known", false});
  }
  return checks;
}

}  // namespace

std::vector<Check> check_machine(const std::string& logs_dir) {
  std::vector<Check> checks = {check_shared_memory(), check_logs(logs_dir)};
  for (Check& check : check_sampler()) checks.push_back(std::move(check));
  checks.push_back(check_perf());
  checks.push_back(check_driver());
  checks.push_back(check_nvml());
  return checks;
}

}  // namespace stepscope
