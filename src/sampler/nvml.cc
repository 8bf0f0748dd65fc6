#include "sampler/nvml.h"

#include <dlfcn.h>

#include <array>
#include <map>
#include <memory>
#include <optional>

#include "sampler/nvml_abi.h"

namespace stepscope {
namespace {

using nvml::Return;

constexpr unsigned kSensorGpu = 0, kThresholdSlowdown = 1, kClockSm = 1, kVolatile = 0;
constexpr unsigned long long kEventXid = 8;
constexpr unsigned kFieldMemoryTemperature = 82;
// Replays and recoveries. Not CRC errors: healthy links correct some all the time. Ampere and older tell totals over
// all links, newer cards one link at a time (the scope); there a counter takes 1 ms, so that each call reads a few.
constexpr std::array<unsigned, 2> kFieldNvlinkTotals = {52, 59}, kFieldNvlinkPerLink = {161, 162};
constexpr unsigned kMaxNvlinks = 32, kLinksPerCall = 3;
constexpr unsigned kGpmSm = 2, kGpmTensor = 5, kGpmDram = 10;
constexpr int kMaxXidsPerPoll = 64;
constexpr size_t kMaxProcesses = 1024;

class NvmlLibrary final : public NvmlApi {
 public:
  NvmlLibrary(void* handle, const nvml::Functions& f) : handle_(handle), f_(f) {}
  ~NvmlLibrary() override;
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  Status start();
  Result<int> gpu_count() override { return gpus_; }
  Result<NvmlIdentity> identity(int device) override;
  Result<double> read(int device, NvmlField field) override;
  Result<std::vector<NvmlProcess>> processes(int device) override;
  std::vector<int> open_mig(int gpu) override;
  Status watch_xids(const std::vector<int>& devices) override;
  std::vector<NvmlXid> poll_xids() override;
  Result<NvmlActivity> activity(int device) override;

 private:
  struct Slot {
    nvml::Device device = nullptr;
    std::array<nvml::GpmSample, 2> gpm{};  // previous, next
    bool gpm_primed = false;
    std::string gpm_error;
    struct Link {
      std::optional<uint64_t> first;
      uint64_t last = 0;
    };
    std::array<Link, kMaxNvlinks> links;  // where errors are told per link: since first seen
    unsigned next_link = 0;
  };

  std::unexpected<Error> error(Return rc) const;
  // The handle is fetched when first asked for: it attaches the GPU, which takes long on an idle one.
  Result<Slot*> slot(int device);
  template <class... A>
  Status call(Return (*fn)(nvml::Device, A...), nvml::Device d, std::type_identity_t<A>... a) const;
  Result<double> clock_reasons(nvml::Device d) const;
  std::optional<uint64_t> field_sum(nvml::Device d, const std::array<unsigned, 2>& fields, unsigned scope) const;
  Result<double> nvlink_errors(Slot& s) const;
  Result<double> nvlinks_active(nvml::Device d) const;
  Result<double> memory_temperature(nvml::Device d) const;

  void* handle_;
  nvml::Functions f_;
  bool started_ = false;
  int gpus_ = 0;
  std::vector<Slot> slots_;
  std::map<int, std::vector<int>> mig_;
  nvml::EventSet events_ = nullptr;
  nvml::GpmMetrics metrics_{};
};

NvmlLibrary::~NvmlLibrary() {
  for (Slot& s : slots_) {
    for (nvml::GpmSample sample : s.gpm) {
      if (sample) f_.gpm_sample_free(sample);
    }
  }
  if (events_) f_.event_set_free(events_);
  if (started_) f_.shutdown();
  ::dlclose(handle_);
}

std::unexpected<Error> NvmlLibrary::error(Return rc) const {
  const char* text = f_.error_string ? f_.error_string(rc) : nullptr;
  return fail(text ? std::string(text) : "NVML error " + std::to_string(rc));
}

Status NvmlLibrary::start() {
  if (!f_.init_with_flags || !f_.shutdown || !f_.device_count || !f_.device_by_index) return fail("NVML is too old");
  if (const Return rc = f_.init_with_flags(nvml::kInitDefault); rc != nvml::kSuccess) return error(rc);
  started_ = true;
  unsigned count = 0;
  if (const Return rc = f_.device_count(&count); rc != nvml::kSuccess) return error(rc);
  gpus_ = static_cast<int>(count);
  slots_.resize(count);
  return {};
}

Result<NvmlLibrary::Slot*> NvmlLibrary::slot(int device) {
  if (device < 0 || static_cast<size_t>(device) >= slots_.size()) return fail("no such device");
  Slot& s = slots_[static_cast<size_t>(device)];
  if (!s.device) {
    const Return rc = f_.device_by_index(static_cast<unsigned>(device), &s.device);
    if (rc != nvml::kSuccess) {
      s.device = nullptr;
      return error(rc);
    }
  }
  return &s;
}

template <class... A>
Status NvmlLibrary::call(Return (*fn)(nvml::Device, A...), nvml::Device d, std::type_identity_t<A>... a) const {
  if (!fn) return fail("not in this driver");
  const Return rc = fn(d, a...);
  if (rc != nvml::kSuccess) return error(rc);
  return {};
}

Result<NvmlIdentity> NvmlLibrary::identity(int device) {
  const auto s = slot(device);
  if (!s) return std::unexpected(s.error());
  NvmlIdentity out;
  std::array<char, 128> text{};
  if (call(f_.device_name, (*s)->device, text.data(), static_cast<unsigned>(text.size() - 1))) out.name = text.data();
  text.fill(0);
  if (call(f_.device_uuid, (*s)->device, text.data(), static_cast<unsigned>(text.size() - 1))) out.uuid = text.data();
  nvml::PciInfo pci{};
  if (call(f_.pci_info, (*s)->device, &pci)) {
    pci.bus_id[sizeof pci.bus_id - 1] = 0;
    out.pci_bus = pci.bus_id;
  }
  return out;
}

Result<double> NvmlLibrary::read(int device, NvmlField field) {
  const auto s = slot(device);
  if (!s) return std::unexpected(s.error());
  const nvml::Device d = (*s)->device;
  unsigned u = 0;
  unsigned long long ull = 0;
  const auto unsigned_value = [&](const Status& status, double scale = 1) -> Result<double> {
    if (!status) return std::unexpected(status.error());
    return u * scale;
  };
  switch (field) {
    case NvmlField::kUtilization:
    case NvmlField::kMemoryUtilization: {
      nvml::Utilization value{};
      if (auto st = call(f_.utilization, d, &value); !st) return std::unexpected(st.error());
      return (field == NvmlField::kUtilization ? value.gpu : value.memory) / 100.0;
    }
    case NvmlField::kMemoryUsed:
    case NvmlField::kMemoryTotal: {
      nvml::Memory value{};
      if (auto st = call(f_.memory_info, d, &value); !st) return std::unexpected(st.error());
      return static_cast<double>(field == NvmlField::kMemoryUsed ? value.used : value.total);
    }
    case NvmlField::kTemperature: return unsigned_value(call(f_.temperature, d, kSensorGpu, &u));
    case NvmlField::kMemoryTemperature: return memory_temperature(d);
    case NvmlField::kTemperatureSlowdown:
      return unsigned_value(call(f_.temperature_threshold, d, kThresholdSlowdown, &u));
    case NvmlField::kPower: return unsigned_value(call(f_.power_usage, d, &u), 1e-3);
    case NvmlField::kPowerLimit: return unsigned_value(call(f_.power_limit, d, &u), 1e-3);
    case NvmlField::kSmClock: return unsigned_value(call(f_.clock, d, kClockSm, &u));
    case NvmlField::kSmClockMax: return unsigned_value(call(f_.max_clock, d, kClockSm, &u));
    case NvmlField::kClockReasons: return clock_reasons(d);
    case NvmlField::kEccCorrected:
    case NvmlField::kEccUncorrected:
      if (auto st = call(f_.ecc_errors, d, field == NvmlField::kEccCorrected ? 0u : 1u, kVolatile, &ull); !st) {
        return std::unexpected(st.error());
      }
      return static_cast<double>(ull);
    case NvmlField::kRemappedPending: {
      unsigned corrected = 0, uncorrected = 0, failed = 0;
      return unsigned_value(call(f_.remapped_rows, d, &corrected, &uncorrected, &u, &failed));
    }
    case NvmlField::kPcieReplays: return unsigned_value(call(f_.pcie_replay, d, &u));
    case NvmlField::kPcieWidth: return unsigned_value(call(f_.pcie_width, d, &u));
    case NvmlField::kPcieWidthMax: return unsigned_value(call(f_.pcie_width_max, d, &u));
    case NvmlField::kPcieGeneration: return unsigned_value(call(f_.pcie_generation, d, &u));
    case NvmlField::kPcieGenerationMax: return unsigned_value(call(f_.pcie_generation_max, d, &u));
    case NvmlField::kNvlinkErrors: return nvlink_errors(**s);
    case NvmlField::kNvlinksActive: return nvlinks_active(d);
  }
  return fail("unknown field");
}

Result<double> NvmlLibrary::clock_reasons(nvml::Device d) const {
  unsigned long long bits = 0;
  const auto fn = f_.event_reasons ? f_.event_reasons : f_.throttle_reasons;  // renamed with driver 535
  if (auto st = call(fn, d, &bits); !st) return std::unexpected(st.error());
  return static_cast<double>(bits & 0xffff);
}

Result<double> NvmlLibrary::memory_temperature(nvml::Device d) const {
  nvml::FieldValue value{};
  value.field = kFieldMemoryTemperature;
  if (auto st = call(f_.field_values, d, 1, &value); !st) return std::unexpected(st.error());
  if (value.result != nvml::kSuccess) return error(value.result);
  return static_cast<double>(value.value.u32);
}

std::optional<uint64_t> NvmlLibrary::field_sum(nvml::Device d, const std::array<unsigned, 2>& fields,
                                               unsigned scope) const {
  std::array<nvml::FieldValue, 2> values{};
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].field = fields[i];
    values[i].scope = scope;
  }
  if (!call(f_.field_values, d, static_cast<int>(values.size()), values.data())) return std::nullopt;
  std::optional<uint64_t> sum;
  for (const nvml::FieldValue& v : values) {
    if (v.result == nvml::kSuccess) sum = sum.value_or(0) + v.value.u64;
  }
  return sum;
}

Result<double> NvmlLibrary::nvlink_errors(Slot& s) const {
  if (const auto total = field_sum(s.device, kFieldNvlinkTotals, 0)) return static_cast<double>(*total);
  bool any = false;
  for (unsigned i = 0; i < kLinksPerCall; ++i) {
    const unsigned link = s.next_link;
    const auto errors = field_sum(s.device, kFieldNvlinkPerLink, link);
    s.next_link = errors && link + 1 < kMaxNvlinks ? link + 1 : 0;
    if (!errors) continue;
    any = true;
    if (!s.links[link].first) s.links[link].first = errors;
    s.links[link].last = *errors;
  }
  if (!any && !s.links[0].first) return fail("Not Supported");
  uint64_t since_first = 0;
  for (const auto& link : s.links) since_first += link.first ? link.last - *link.first : 0;
  return static_cast<double>(since_first);
}

Result<double> NvmlLibrary::nvlinks_active(nvml::Device d) const {
  int active = 0;
  for (unsigned link = 0; link < kMaxNvlinks; ++link) {
    unsigned state = 0;
    const auto st = call(f_.nvlink_state, d, link, &state);
    if (!st) {
      if (link == 0) return std::unexpected(st.error());
      break;
    }
    active += state == 1;
  }
  return static_cast<double>(active);
}

Result<std::vector<NvmlProcess>> NvmlLibrary::processes(int device) {
  const auto s = slot(device);
  if (!s) return std::unexpected(s.error());
  const auto fn = f_.processes_v3 ? f_.processes_v3 : f_.processes_v2;
  if (!fn) return fail("not in this driver");
  std::vector<nvml::ProcessInfo> list(64);
  for (int attempt = 0; attempt < 4; ++attempt) {
    auto count = static_cast<unsigned>(list.size());
    const Return rc = fn((*s)->device, &count, list.data());
    if (rc == nvml::kInsufficientSize && list.size() < kMaxProcesses) {
      list.resize(list.size() * 2);
      continue;
    }
    if (rc != nvml::kSuccess) return error(rc);
    std::vector<NvmlProcess> out;
    for (unsigned i = 0; i < count && i < list.size(); ++i) {
      // All ones: the driver does not know (no permission, or a MIG parent).
      out.push_back({list[i].pid, list[i].used_memory == ~0ull ? 0 : list[i].used_memory});
    }
    return out;
  }
  return fail("too many processes");
}

std::vector<int> NvmlLibrary::open_mig(int gpu) {
  if (const auto known = mig_.find(gpu); known != mig_.end()) return known->second;
  std::vector<int>& out = mig_[gpu];
  const auto s = slot(gpu);
  unsigned current = 0, pending = 0, count = 0;
  if (!s || !call(f_.mig_mode, (*s)->device, &current, &pending) || current != 1) return out;
  if (!call(f_.mig_count_max, (*s)->device, &count)) return out;
  const nvml::Device parent = (*s)->device;  // the vector may move
  for (unsigned i = 0; i < count; ++i) {
    nvml::Device instance = nullptr;
    if (!call(f_.mig_by_index, parent, i, &instance)) continue;
    slots_.emplace_back().device = instance;
    out.push_back(static_cast<int>(slots_.size()) - 1);
  }
  return out;
}

Status NvmlLibrary::watch_xids(const std::vector<int>& devices) {
  if (!f_.event_set_create || !f_.event_register || !f_.event_wait || !f_.event_set_free)
    return fail("not in this driver");
  if (!events_) {
    if (const Return rc = f_.event_set_create(&events_); rc != nvml::kSuccess) {
      events_ = nullptr;
      return error(rc);
    }
  }
  Status first;
  for (const int device : devices) {
    const auto s = slot(device);
    const Status st = s ? call(f_.event_register, (*s)->device, kEventXid, events_) : std::unexpected(s.error());
    if (!st && first) first = st;
  }
  return first;
}

std::vector<NvmlXid> NvmlLibrary::poll_xids() {
  std::vector<NvmlXid> out;
  if (!events_) return out;
  for (int i = 0; i < kMaxXidsPerPoll; ++i) {
    nvml::EventData data{};
    if (f_.event_wait(events_, &data, 0) != nvml::kSuccess) break;
    if (data.type != kEventXid) continue;
    for (size_t d = 0; d < slots_.size(); ++d) {
      if (slots_[d].device == data.device) out.push_back({static_cast<int>(d), data.data});
    }
  }
  return out;
}

Result<NvmlActivity> NvmlLibrary::activity(int device) {
  const auto found = slot(device);
  if (!found) return std::unexpected(found.error());
  Slot& s = **found;
  if (!s.gpm_error.empty()) return fail(s.gpm_error);
  const auto give_up = [&](std::string why) { return fail(s.gpm_error = std::move(why)); };
  if (!f_.gpm_support || !f_.gpm_sample_alloc || !f_.gpm_sample_free || !f_.gpm_sample_get || !f_.gpm_metrics_get) {
    return give_up("not in this driver");
  }
  if (!s.gpm[0]) {
    nvml::GpmSupport support{1, 0};
    if (auto st = call(f_.gpm_support, s.device, &support); !st) return give_up(st.error().message);
    if (!support.supported) return give_up("needs Hopper or newer");
    for (nvml::GpmSample& sample : s.gpm) {
      if (const Return rc = f_.gpm_sample_alloc(&sample); rc != nvml::kSuccess) {
        sample = nullptr;
        return give_up(error(rc).error().message);
      }
    }
  }
  if (auto st = call(f_.gpm_sample_get, s.device, s.gpm[1]); !st) return give_up(st.error().message);
  std::swap(s.gpm[0], s.gpm[1]);  // [0] is the newest now
  if (!s.gpm_primed) {
    s.gpm_primed = true;
    return fail("first reading");
  }
  metrics_.version = 1;
  metrics_.count = 3;
  metrics_.sample1 = s.gpm[1];
  metrics_.sample2 = s.gpm[0];
  constexpr std::array<unsigned, 3> kIds = {kGpmSm, kGpmTensor, kGpmDram};
  for (size_t i = 0; i < kIds.size(); ++i) metrics_.metrics[i] = {kIds[i], 0, 0, nullptr, nullptr, nullptr};
  if (const Return rc = f_.gpm_metrics_get(&metrics_); rc != nvml::kSuccess) return error(rc);
  for (size_t i = 0; i < kIds.size(); ++i) {
    if (metrics_.metrics[i].result != nvml::kSuccess) return error(metrics_.metrics[i].result);
  }
  return NvmlActivity{metrics_.metrics[0].value / 100, metrics_.metrics[1].value / 100,
                      metrics_.metrics[2].value / 100};
}

}  // namespace

const char* name(NvmlField field) {
  static constexpr std::array<const char*, kNvmlFieldCount> kNames = {"utilization",          "memory utilization",
                                                                      "memory used",          "memory total",
                                                                      "temperature",          "memory temperature",
                                                                      "slowdown temperature", "power",
                                                                      "power limit",          "SM clock",
                                                                      "highest SM clock",     "clock event reasons",
                                                                      "corrected ECC errors", "uncorrected ECC errors",
                                                                      "remapped rows",        "PCIe replays",
                                                                      "PCIe width",           "highest PCIe width",
                                                                      "PCIe generation",      "highest PCIe generation",
                                                                      "NVLink errors",        "NVLinks"};
  return kNames[static_cast<size_t>(field)];
}

Result<std::shared_ptr<NvmlApi>> open_nvml(const std::string& library) {
  void* handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) return fail("no NVIDIA driver library (" + library + ")");
  nvml::Functions f;
#define X(member, symbol, parameters) f.member = reinterpret_cast<decltype(f.member)>(::dlsym(handle, #symbol));
  STEPSCOPE_NVML_FUNCTIONS(X)
#undef X
  f.error_string = reinterpret_cast<decltype(f.error_string)>(::dlsym(handle, "nvmlErrorString"));
  auto api = std::make_shared<NvmlLibrary>(handle, f);
  if (auto st = api->start(); !st) return std::unexpected(st.error());
  return api;
}

}  // namespace stepscope
