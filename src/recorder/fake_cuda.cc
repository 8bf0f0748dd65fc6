#include "recorder/fake_cuda.h"

#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"

namespace {

struct FakeEvent {
  bool recorded = false;
  int64_t at_ns = 0;
};

struct Device {
  std::mutex mutex;
  double drift_ppm = 0;
  int64_t offset_ns = 0, manual_ns = -1;
  uint64_t epoch_ns = stepscope::monotonic_ns();
  std::map<void*, int64_t> busy;
  std::set<void*> capturing;
  std::map<std::string, std::pair<int, int>> failures;
  FakeCudaCounts counts{};
  uintptr_t next_stream = 0x5000;

  int64_t now() {
    if (manual_ns >= 0) return manual_ns;
    const auto host = static_cast<double>(stepscope::monotonic_ns() - epoch_ns);
    return offset_ns + static_cast<int64_t>(host * (1 + drift_ppm * 1e-6));
  }
  int failure(const char* function) {
    const auto it = failures.find(function);
    if (it == failures.end() || it->second.second == 0) return 0;
    if (it->second.second > 0) --it->second.second;
    return it->second.first;
  }
};

Device& device() {
  static auto* d = new Device;
  return *d;
}
thread_local void* t_context = nullptr;
thread_local int t_mode = 0;  // global

int64_t stream_time(Device& d, void* stream) {
  const auto it = d.busy.find(stream);
  const int64_t now = d.now();
  return it == d.busy.end() || it->second < now ? now : it->second;
}

#define LOCKED(name)                    \
  Device& d = device();                 \
  const std::scoped_lock lock(d.mutex); \
  if (const int code = d.failure(name)) return code
#define NEEDS_CONTEXT             \
  if (!t_context) {               \
    ++d.counts.implicit_contexts; \
    return 201;                   \
  }

}  // namespace

extern "C" {

int cuEventCreate(void** event, unsigned) {
  LOCKED("cuEventCreate");
  NEEDS_CONTEXT;
  *event = new FakeEvent;
  ++d.counts.created;
  return 0;
}
int cuEventDestroy_v2(void* event) {
  LOCKED("cuEventDestroy");
  delete static_cast<FakeEvent*>(event);
  ++d.counts.destroyed;
  return 0;
}
int cuEventRecord(void* event, void* stream) {
  LOCKED("cuEventRecord");
  NEEDS_CONTEXT;
  if (d.capturing.contains(stream) || (!stream && !d.capturing.empty())) {
    ++d.counts.recorded_in_capture;
    return 900;
  }
  *static_cast<FakeEvent*>(event) = {true, stream_time(d, stream)};
  ++d.counts.recorded;
  return 0;
}
int cuEventQuery(void* event) {
  LOCKED("cuEventQuery");
  NEEDS_CONTEXT;
  ++d.counts.queried;
  if (t_mode == 0 && !d.capturing.empty()) {
    ++d.counts.broken_captures;
    return 901;
  }
  const auto* e = static_cast<FakeEvent*>(event);
  return !e->recorded || d.now() >= e->at_ns ? 0 : 600;
}
int cuEventElapsedTime_v2(float* ms, void* begin, void* end) {
  LOCKED("cuEventElapsedTime");
  ++d.counts.elapsed;
  const auto *a = static_cast<FakeEvent*>(begin), *b = static_cast<FakeEvent*>(end);
  if (!a->recorded || !b->recorded) return 400;
  if (d.now() < a->at_ns || d.now() < b->at_ns) return 600;
  *ms = static_cast<float>(static_cast<double>(b->at_ns - a->at_ns) * 1e-6);
  return 0;
}
int cuStreamIsCapturing(void* stream, int* status) {
  LOCKED("cuStreamIsCapturing");
  *status = d.capturing.contains(stream) ? 1 : 0;
  return !stream && !d.capturing.empty() ? 906 : 0;
}
int cuStreamCreate(void** stream, unsigned) {
  LOCKED("cuStreamCreate");
  NEEDS_CONTEXT;
  *stream = reinterpret_cast<void*>(d.next_stream += 16);
  return 0;
}
int cuStreamDestroy_v2(void*) { return 0; }
int cuThreadExchangeStreamCaptureMode(int* mode) {
  const int old = t_mode;
  t_mode = *mode;
  *mode = old;
  return 0;
}
int cuCtxGetCurrent(void** context) {
  *context = t_context;
  return 0;
}
int cuCtxSetCurrent(void* context) {
  LOCKED("cuCtxSetCurrent");
  t_context = context;
  return 0;
}
int cuCtxGetDevice(int* out) {
  if (!t_context) return 201;
  *out = 0;
  return 0;
}
int cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return 0;
}
int cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  LOCKED("cuMemHostAlloc");
  NEEDS_CONTEXT;
  static auto* kept = new std::map<size_t, std::vector<char>>;  // the recorder never gives it back
  std::vector<char>& block = (*kept)[bytes];
  block.resize(bytes);
  *memory = block.data();
  return 0;
}
// At once, whatever the stream still has to do: readers go by the event behind it.
int cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  LOCKED("cuMemcpyDtoHAsync");
  NEEDS_CONTEXT;
  if (d.capturing.contains(stream) || (!stream && !d.capturing.empty())) {
    ++d.counts.recorded_in_capture;
    return 900;
  }
  std::memcpy(to, reinterpret_cast<const void*>(static_cast<uintptr_t>(from)), bytes);
  return 0;
}
int cuEventSynchronize(void*) {
  LOCKED("cuEventSynchronize");
  ++d.counts.waits;
  return 0;
}
int cuStreamSynchronize(void*) {
  LOCKED("cuStreamSynchronize");
  ++d.counts.waits;
  return 0;
}

void fake_cuda_reset() {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  d.drift_ppm = 0;
  d.offset_ns = 0;
  d.manual_ns = -1;
  d.busy.clear();
  d.capturing.clear();
  d.failures.clear();
  d.counts = {};
}
void fake_cuda_context(void* context) { t_context = context; }
void fake_cuda_clock(double drift_ppm, int64_t offset_ns) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  d.drift_ppm = drift_ppm;
  d.offset_ns = offset_ns;
  d.manual_ns = -1;
}
void fake_cuda_manual(int64_t gpu_ns) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  d.manual_ns = gpu_ns;
}
int64_t fake_cuda_now() {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  return d.now();
}
void fake_cuda_work(void* stream, int64_t duration_ns) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  d.busy[stream] = stream_time(d, stream) + duration_ns;
}
int64_t fake_cuda_busy_until(void* stream) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  return stream_time(d, stream);
}
void fake_cuda_capture(void* stream, int on) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  on ? (void)d.capturing.insert(stream) : (void)d.capturing.erase(stream);
}
void fake_cuda_fail(const char* function, int code, int times) {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  d.failures[function] = {code, times};
}
FakeCudaCounts fake_cuda_counts() {
  Device& d = device();
  const std::scoped_lock lock(d.mutex);
  return d.counts;
}
}
