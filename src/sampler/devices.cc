#include "sampler/devices.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"

namespace stepscope {
namespace {

constexpr size_t kMaxDevices = 256;
constexpr uint64_t kStaggerNs = 50'000'000;  // between the first samples of two devices

}  // namespace

Devices::Devices(std::shared_ptr<NvmlApi> nvml, uint64_t interval_ns, size_t series_capacity)
    : nvml_(std::move(nvml)), tried_(nvml_ != nullptr), interval_ns_(interval_ns), series_capacity_(series_capacity) {}

void Devices::note(const std::string& text) {
  if (std::find(unavailable_.begin(), unavailable_.end(), text) == unavailable_.end()) unavailable_.push_back(text);
}

void Devices::add_rank(int rank, int pid, const DeviceEnvironment& environment, uint64_t now_ns) {
  if (!tried_) {
    tried_ = true;
    auto opened = open_nvml();
    if (opened)
      nvml_ = std::move(*opened);
    else
      note("GPU health: " + opened.error().message);
  }
  if (!nvml_) return;
  remove_rank(rank);
  std::erase_if(users_, [&](const User& u) { return u.rank == rank; });
  users_.push_back({rank, pid, resolve(environment, now_ns), std::nullopt, false});
}

void Devices::remove_rank(int rank) {
  for (User& u : users_) {
    if (u.rank == rank) u.gone = true;
  }
}

int Devices::follow(int number, int gpu, bool mig, uint64_t now_ns) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].device.number() == number) return static_cast<int>(i);
  }
  devices_.push_back({Device(*nvml_, number, gpu, mig, series_capacity_), now_ns + kStaggerNs * devices_.size()});
  // XIDs are reported for whole GPUs.
  if (const auto st = nvml_->watch_xids({gpu}); !st) note("XID errors: " + st.error().message);
  return static_cast<int>(devices_.size()) - 1;
}

std::optional<int> Devices::by_index(int index, uint64_t now_ns) {
  const auto count = nvml_->gpu_count();
  if (!count || index < 0 || index >= *count || devices_.size() >= kMaxDevices) return std::nullopt;
  const std::vector<int> instances = nvml_->open_mig(index);  // CUDA takes the first instance of a divided GPU
  return instances.empty() ? follow(index, index, false, now_ns) : follow(instances[0], index, true, now_ns);
}

std::optional<int> Devices::by_uuid(const std::string& uuid, uint64_t now_ns) {
  const auto count = nvml_->gpu_count();
  if (!count || devices_.size() >= kMaxDevices) return std::nullopt;
  const bool mig = uuid.starts_with("MIG-");
  // Older drivers: MIG-GPU-<uuid of the GPU>/<instance>/<compute instance>.
  const bool old_mig = uuid.starts_with("MIG-GPU-");
  const std::string gpu_uuid = old_mig ? uuid.substr(4, uuid.find('/') - 4) : uuid;
  for (int gpu = 0; gpu < *count; ++gpu) {
    if (!mig || old_mig) {
      const auto id = nvml_->identity(gpu);
      if (id && id->uuid.starts_with(gpu_uuid))
        return old_mig ? by_index(gpu, now_ns) : follow(gpu, gpu, false, now_ns);
      continue;
    }
    for (const int instance : nvml_->open_mig(gpu)) {
      const auto id = nvml_->identity(instance);
      if (id && id->uuid.starts_with(uuid)) return follow(instance, gpu, true, now_ns);
    }
  }
  note("GPU health: no device is called " + uuid);
  return std::nullopt;
}

std::optional<int> Devices::resolve(const DeviceEnvironment& environment, uint64_t now_ns) {
  if (!environment.visible) return by_index(environment.local_rank, now_ns);
  const auto visible = parse_visible_devices(*environment.visible);
  if (visible.empty()) return std::nullopt;
  // A launcher that gives each rank one device makes it device 0 there, whatever the local rank.
  const size_t at = visible.size() == 1 ? 0 : static_cast<size_t>(environment.local_rank);
  if (at >= visible.size()) return std::nullopt;
  return visible[at].index >= 0 ? by_index(visible[at].index, now_ns) : by_uuid(visible[at].uuid, now_ns);
}

void Devices::sample(uint64_t now_ns) {
  if (!nvml_ || devices_.empty()) return;
  // The one that waits longest; the others have their turn at the next calls.
  auto next = std::min_element(devices_.begin(), devices_.end(),
                               [](const Followed& a, const Followed& b) { return a.due_ns < b.due_ns; });
  if (next->due_ns <= now_ns) {
    const uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const bool slow = next->device.sample(*nvml_, now_ns);
    pace_.add(static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin), slow);
    const uint64_t interval = pace_.interval_ns(interval_ns_, devices_.size());
    next->due_ns = std::max(next->due_ns + interval, now_ns + interval / 2);
    match_pids();
  }
  for (const NvmlXid& xid : nvml_->poll_xids()) {
    for (Followed& f : devices_) {
      if (f.device.gpu() == xid.device) f.device.note_xid(now_ns, xid.code);
    }
  }
}

uint64_t Devices::next_due_ns() const {
  uint64_t due = std::numeric_limits<uint64_t>::max();
  for (const Followed& f : devices_) due = std::min(due, f.due_ns);
  return due;
}

void Devices::match_pids() {
  for (User& u : users_) {
    if (u.device || u.gone) continue;
    for (size_t i = 0; i < devices_.size(); ++i) {
      const auto& list = devices_[i].device.processes();
      const bool here = std::any_of(list.begin(), list.end(), [&](const DeviceProcess& p) { return p.pid == u.pid; });
      if (here) u.device = static_cast<int>(i);
    }
  }
}

void Devices::fill(HostFacts& facts) const {
  for (const Followed& f : devices_) facts.devices.push_back(f.device.facts());
  for (const User& u : users_) {
    const auto at = u.device ? u.device : u.guess;
    if (!at) continue;
    DeviceFacts& d = facts.devices[static_cast<size_t>(*at)];
    d.ranks.push_back(u.rank);
    for (DeviceProcess& p : d.processes) {
      if (p.pid == u.pid) p.rank = u.rank;
    }
    for (RankProcess& r : facts.ranks) {
      if (r.rank == u.rank) r.devices.push_back(*at);
    }
  }
  facts.unavailable.insert(facts.unavailable.end(), unavailable_.begin(), unavailable_.end());
}

}  // namespace stepscope
