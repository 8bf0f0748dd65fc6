// A libnvidia-ml.so.1 without a GPU: the C ABI of the calls that sampler/nvml.cc makes. FAKE_NVML_OLD leaves out what
// drivers before 535 do not have.
#include "fake_nvml.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

#include "sampler/nvml_abi.h"

using namespace stepscope::nvml;
using stepscope::testing::FakeNvmlState;

namespace {

FakeNvmlState g_state;
char g_gpus[16], g_instances[2];

unsigned number(Device d) { return static_cast<unsigned>(static_cast<char*>(d) - g_gpus); }
bool is_gpu(Device d) { return d >= g_gpus && d < g_gpus + 16; }

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))
#define CHECK if (g_state.failing_result) return g_state.failing_result

EXPORT FakeNvmlState* fake_nvml_state() { return &g_state; }
EXPORT const char* nvmlErrorString(Return rc) { return rc == kNotSupported ? "Not Supported" : rc == kGpuLost ? "GPU is lost" : "Error"; }
EXPORT Return nvmlInitWithFlags(unsigned flags) {
  g_state.init_flags = flags;
  if (g_state.init_result) return g_state.init_result;
  ++g_state.open;
  return kSuccess;
}
EXPORT Return nvmlShutdown() { return --g_state.open, kSuccess; }
// As the driver does: with the flag "do not attach" there are none.
EXPORT Return nvmlDeviceGetCount_v2(unsigned* n) { return *n = g_state.init_flags & 2 ? 0 : g_state.gpus, kSuccess; }
EXPORT Return nvmlDeviceGetHandleByIndex_v2(unsigned i, Device* d) {
  ++g_state.handles_fetched;
  if (i >= g_state.gpus) return kInvalidArgument;
  return *d = g_gpus + i, kSuccess;
}
EXPORT Return nvmlDeviceGetName(Device, char* text, unsigned size) { return std::snprintf(text, size, "Fake GPU"), kSuccess; }
EXPORT Return nvmlDeviceGetUUID(Device d, char* text, unsigned size) {
  if (is_gpu(d)) std::snprintf(text, size, "GPU-%08u", number(d));
  else std::snprintf(text, size, "MIG-%08u", static_cast<unsigned>(static_cast<char*>(d) - g_instances));
  return kSuccess;
}
EXPORT Return nvmlDeviceGetPciInfo_v3(Device, PciInfo* p) {
  std::memset(p->bus_id, 'x', sizeof p->bus_id);  // without an end
  return kSuccess;
}
EXPORT Return nvmlDeviceGetUtilizationRates(Device d, Utilization* u) {
  CHECK;
  if (!is_gpu(d)) return kNotSupported;
  return *u = {75, 25}, kSuccess;
}
EXPORT Return nvmlDeviceGetMemoryInfo(Device, Memory* m) { CHECK; return *m = {80, 50, 30}, kSuccess; }
EXPORT Return nvmlDeviceGetTemperature(Device, unsigned, unsigned* t) { CHECK; return *t = 61, kSuccess; }
EXPORT Return nvmlDeviceGetTemperatureThreshold(Device, unsigned kind, unsigned* t) { CHECK; return *t = kind == 1 ? 89 : 95, kSuccess; }
EXPORT Return nvmlDeviceGetPowerUsage(Device, unsigned* mw) { CHECK; return *mw = 650'500, kSuccess; }
EXPORT Return nvmlDeviceGetEnforcedPowerLimit(Device, unsigned* mw) { CHECK; return *mw = 700'000, kSuccess; }
EXPORT Return nvmlDeviceGetClockInfo(Device, unsigned kind, unsigned* mhz) { CHECK; return *mhz = kind == 1 ? 1500 : 1, kSuccess; }
EXPORT Return nvmlDeviceGetMaxClockInfo(Device, unsigned kind, unsigned* mhz) { CHECK; return *mhz = kind == 1 ? 1980 : 1, kSuccess; }
EXPORT Return nvmlDeviceGetCurrentClocksThrottleReasons(Device, unsigned long long* bits) { CHECK; return *bits = 0x4, kSuccess; }
EXPORT Return nvmlDeviceGetTotalEccErrors(Device, unsigned type, unsigned counter, unsigned long long* n) {
  CHECK;
  return *n = type == 0 && counter == 0 ? 11 : type == 1 && counter == 0 ? 2 : 1000, kSuccess;
}
EXPORT Return nvmlDeviceGetPcieReplayCounter(Device, unsigned* n) { CHECK; return *n = 7, kSuccess; }
EXPORT Return nvmlDeviceGetCurrPcieLinkWidth(Device, unsigned* n) { CHECK; return *n = 8, kSuccess; }
EXPORT Return nvmlDeviceGetMaxPcieLinkWidth(Device, unsigned* n) { CHECK; return *n = 16, kSuccess; }
EXPORT Return nvmlDeviceGetNvLinkState(Device, unsigned link, unsigned* up) {
  CHECK;
  if (link >= 18) return kInvalidArgument;
  return *up = link != 5, kSuccess;
}
EXPORT Return nvmlDeviceGetFieldValues(Device, int n, FieldValue* v) {
  CHECK;
  for (int i = 0; i < n; ++i) {
    v[i].result = kSuccess;
    if (v[i].field == 82) v[i].value.u32 = 55;
    else if (g_state.link_totals && (v[i].field == 52 || v[i].field == 59)) v[i].value.u64 = v[i].field == 52 ? 4 : 3;
    else if (!g_state.link_totals && v[i].field == 161 && v[i].scope < 18) v[i].value.u64 = g_state.link_replays[v[i].scope];
    else if (!g_state.link_totals && v[i].field == 162 && v[i].scope < 18) v[i].value.u64 = 0;
    else v[i].result = kNotSupported;
  }
  return kSuccess;
}
EXPORT Return nvmlDeviceGetComputeRunningProcesses_v2(Device, unsigned* count, ProcessInfo* list) {
  CHECK;
  if (*count < g_state.process_count) return *count = g_state.process_count, kInsufficientSize;
  *count = g_state.process_count;
  for (unsigned i = 0; i < *count; ++i) list[i] = {100 + i, i == 0 ? ~0ull : 1000ull * i, 0, 0};
  return kSuccess;
}
EXPORT Return nvmlDeviceGetMigMode(Device d, unsigned* now, unsigned* later) {
  return *now = *later = is_gpu(d) && number(d) == g_state.mig_gpu, kSuccess;
}
EXPORT Return nvmlDeviceGetMaxMigDeviceCount(Device, unsigned* n) { return *n = 7, kSuccess; }
EXPORT Return nvmlDeviceGetMigDeviceHandleByIndex(Device, unsigned i, Device* d) {
  if (i >= 2) return kNotFound;
  return *d = g_instances + i, kSuccess;
}
EXPORT Return nvmlEventSetCreate(EventSet* s) { return *s = &g_state, ++g_state.live_event_sets, kSuccess; }
EXPORT Return nvmlEventSetFree(EventSet) { return --g_state.live_event_sets, kSuccess; }
EXPORT Return nvmlDeviceRegisterEvents(Device, unsigned long long types, EventSet) { CHECK; return types == 8 ? kSuccess : kInvalidArgument; }
EXPORT Return nvmlEventSetWait_v2(EventSet, EventData* data, unsigned timeout_ms) {
  g_state.xid_timeout_ms = timeout_ms;
  if (!g_state.xid_queue[0]) return kTimeout;
  *data = {g_gpus + 1, 8, g_state.xid_queue[0], 0, 0};
  std::memmove(g_state.xid_queue, g_state.xid_queue + 1, sizeof g_state.xid_queue - sizeof g_state.xid_queue[0]);
  g_state.xid_queue[7] = 0;
  return kSuccess;
}
#ifndef FAKE_NVML_OLD
EXPORT Return nvmlDeviceGetCurrentClocksEventReasons(Device, unsigned long long* bits) { CHECK; return *bits = 0x40, kSuccess; }
EXPORT Return nvmlDeviceGetRemappedRows(Device, unsigned* a, unsigned* b, unsigned* pending, unsigned* failed) {
  CHECK;
  return *a = *b = *failed = 9, *pending = 1, kSuccess;
}
EXPORT Return nvmlGpmQueryDeviceSupport(Device, GpmSupport* s) {
  CHECK;
  if (s->version != 1) return kInvalidArgument;
  return s->supported = g_state.gpm_supported, kSuccess;
}
EXPORT Return nvmlGpmSampleAlloc(GpmSample* s) { return *s = new int(0), ++g_state.live_gpm_samples, kSuccess; }
EXPORT Return nvmlGpmSampleFree(GpmSample s) { return delete static_cast<int*>(s), --g_state.live_gpm_samples, kSuccess; }
EXPORT Return nvmlGpmSampleGet(Device, GpmSample s) {
  static int clock = 0;
  CHECK;
  return *static_cast<int*>(s) = ++clock, kSuccess;
}
EXPORT Return nvmlGpmMetricsGet(GpmMetrics* m) {
  // The first sample must be the older one.
  if (m->version != 1 || *static_cast<int*>(m->sample1) >= *static_cast<int*>(m->sample2)) return kInvalidArgument;
  for (unsigned i = 0; i < m->count; ++i) {
    m->metrics[i].result = kSuccess;
    m->metrics[i].value = m->metrics[i].id == 2 ? g_state.gpm_sm : m->metrics[i].id == 5 ? g_state.gpm_tensor : g_state.gpm_dram;
  }
  return kSuccess;
}
#endif
