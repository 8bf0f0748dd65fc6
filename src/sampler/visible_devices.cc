#include "sampler/visible_devices.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "sampler/small_file.h"

namespace stepscope {
namespace {

constexpr size_t kMaxVisible = 256;
constexpr int kMaxFds = 65536;

}  // namespace

DeviceEnvironment parse_device_environment(std::string_view text) {
  DeviceEnvironment out;
  bool torch_rank = false;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    const std::string_view entry = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = entry.substr(0, equals);
    std::string_view value = entry.substr(equals + 1);
    if (key == "CUDA_VISIBLE_DEVICES") {
      out.visible = std::string(value);
    } else if (key == "LOCAL_RANK" || (key == "SLURM_LOCALID" && !torch_rank)) {
      const auto rank = take_u64(value);
      if (!rank || *rank > 4096) continue;
      out.local_rank = static_cast<int>(*rank);
      torch_rank |= key == "LOCAL_RANK";
    }
  }
  return out;
}

std::vector<VisibleDevice> parse_visible_devices(std::string_view list) {
  std::vector<VisibleDevice> out;
  while (!list.empty() && out.size() < kMaxVisible) {
    const size_t comma = list.find(',');
    std::string_view entry = list.substr(0, comma);
    list.remove_prefix(comma == std::string_view::npos ? list.size() : comma + 1);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    VisibleDevice d;
    if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) {
      d.uuid = std::string(entry);
    } else {
      const auto index = take_u64(entry);
      if (!index || !entry.empty() || *index > 4096) break;
      d.index = static_cast<int>(*index);
    }
    out.push_back(std::move(d));
  }
  return out;
}

bool uses_cuda(const std::string& proc, int pid) {
  struct Close {
    void operator()(DIR* d) const { ::closedir(d); }
  };
  const std::unique_ptr<DIR, Close> dir(::opendir((proc + "/" + std::to_string(pid) + "/fd").c_str()));
  if (!dir) return false;
  std::array<char, 64> target;
  int seen = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    if (++seen > kMaxFds) break;
    const ssize_t n = ::readlinkat(::dirfd(dir.get()), entry->d_name, target.data(), target.size());
    if (n > 0 && std::string_view(target.data(), static_cast<size_t>(n)).starts_with("/dev/nvidia-uvm")) return true;
  }
  return false;
}

}  // namespace stepscope
