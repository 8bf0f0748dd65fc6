#include "recorder/gpu_poller.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>
#include <string>

#include "base/clock.h"
#include "recorder/recorder.h"

namespace stepscope::recorder {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kStatusEveryNs = 10'000 * kMs;
constexpr uint64_t kHostBoundNs = 20'000;  // reached so soon after it was recorded: the stream had run dry
constexpr uint64_t kProbeLimitNs = 2 * kMs;
constexpr int kProbes = 5;
constexpr uint32_t kMaxFailedCalibrations = 3;
constexpr uint32_t kMaxStreams = 16;

// Short distances first: the drift is unknown until the second calibration.
uint64_t calibration_gap_ns(uint32_t done) {
  static const bool one_queue = [] {
    const char* value = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return value && value[0] == '1' && value[1] == 0;  // our stream would queue behind the training's
  }();
  if (one_queue) return 30'000 * kMs;
  return done < 2 ? 500 * kMs : done < 4 ? 2'000 * kMs : 10'000 * kMs;
}

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t* wakeup() {
  static pthread_cond_t cond;
  static pthread_cond_t* ready = [] {
    pthread_condattr_t attributes;
    ::pthread_condattr_init(&attributes);
    ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    ::pthread_cond_init(&cond, &attributes);
    ::pthread_condattr_destroy(&attributes);
    return &cond;
  }();
  return ready;
}

// Under g_mutex, or the wakeup falls between a check of `stop` and the wait.
void wait_until(uint64_t deadline_ns) {
  timespec at{static_cast<time_t>(deadline_ns / 1'000'000'000), static_cast<long>(deadline_ns % 1'000'000'000)};
  ::pthread_cond_timedwait(wakeup(), &g_mutex, &at);
}

thread_local bool t_is_poller = false;

void* thread_main(void*) {
  t_is_poller = true;
  ::pthread_setname_np(::pthread_self(), "stepscope-gpu");
  static GpuPoller* poller = nullptr;
  delete poller;  // of an earlier start (tests)
  poller = new (std::nothrow) GpuPoller(g_gpu);
  if (poller) poller->run();
  ::pthread_mutex_lock(&g_mutex);
  g_gpu.finished.store(true);
  ::pthread_cond_broadcast(wakeup());
  ::pthread_mutex_unlock(&g_mutex);
  return nullptr;
}

}  // namespace

bool gpu_poller_start() noexcept {
  wakeup();
  g_gpu.stop.store(false);
  g_gpu.finished.store(false);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  ::pthread_attr_setstacksize(&attributes, 512 * 1024);
  // Signals are the training's business: the thread inherits a full mask.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int rc = ::pthread_create(&thread, &attributes, thread_main, nullptr);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
  if (rc != 0) g_gpu.finished.store(true);
  return rc == 0;
}

void gpu_poller_end(int wait_ms) noexcept {
  if (g_gpu.finished.load() || t_is_poller) return;
  const uint64_t deadline = monotonic_ns() + static_cast<uint64_t>(wait_ms) * kMs;
  ::pthread_mutex_lock(&g_mutex);
  g_gpu.stop.store(true);
  ::pthread_cond_broadcast(wakeup());
  while (!g_gpu.finished.load() && monotonic_ns() < deadline) wait_until(deadline);
  ::pthread_mutex_unlock(&g_mutex);
}

bool GpuPoller::begin() noexcept {
  if (shared_.api->context_set(shared_.context) != kCuSuccess) return false;
  int mode = kCuCaptureModeRelaxed;
  shared_.api->exchange_capture_mode(&mode);
  if (shared_.api->stream_create(&own_stream_, kCuStreamNonBlocking) != kCuSuccess) own_stream_ = nullptr;
  return true;
}

void GpuPoller::run() noexcept {
  if (!begin()) {
    gpu_count_error(0);
    gpu_stop("the CUDA context cannot be bound", 0);
    return;
  }
  int sleep_ms = 1;
  uint64_t last_work_ns = monotonic_ns();
  while (!shared_.stop.load(std::memory_order_acquire)) {
    const uint64_t now = monotonic_ns();
    if (own_stream_ && now >= next_calibration_ns_) {
      calibrate();
      next_calibration_ns_ = reference_ == kNoSlot ? now : now + calibration_gap_ns(calibrations_);
    }
    const uint32_t done = pass();
    if (too_many_errors()) return;
    if (now >= next_status_ns_ || shared_.missing.load() + shared_.errors.load() != reported_trouble_) write_status();
    if (done > 0 || backlog_count_ > 0) last_work_ns = now;
    if (done > 0) {
      sleep_ms = 1;
    } else {
      sleep_ms = now - last_work_ns > 1000 * kMs ? 20 : std::min(sleep_ms + 1, 5);
    }
    idle(sleep_ms);
  }
  drain();
}

void GpuPoller::drain() noexcept {
  const uint64_t deadline = monotonic_ns() + static_cast<uint64_t>(shared_.drain_ms.load()) * kMs;
  do {
    pass();
    if (backlog_count_ == 0 || monotonic_ns() >= deadline) break;
    timespec pause{0, static_cast<long>(kMs)};
    ::nanosleep(&pause, nullptr);
  } while (true);
  write_status(true);
}

void GpuPoller::idle(int ms) noexcept {
  ::pthread_mutex_lock(&g_mutex);
  if (!shared_.stop.load()) wait_until(monotonic_ns() + static_cast<uint64_t>(ms) * kMs);
  ::pthread_mutex_unlock(&g_mutex);
}

bool GpuPoller::too_many_errors() noexcept {
  const uint64_t errors = shared_.errors.load(std::memory_order_relaxed);
  const int code = shared_.last_error.load(std::memory_order_relaxed);
  const blackbox::Control* asked = control();
  const bool told = asked && asked->stop.load(std::memory_order_relaxed) != 0;
  const bool alone = !gpu_has_reader();
  if (errors < kGpuMaxErrors && code != kCuDeinitialized && !told && !alone) return false;
  write_status(true);
  if (alone) return gpu_stop("the recorder is off", 0), true;
  if (told) return gpu_stop("stopped by the agent", 0), true;
  if (code == kCuDeinitialized) return gpu_stop("the CUDA driver shut down", 0), true;
  name(NameKind::kUnavailable, 0,
       "gpu_time: " + std::to_string(errors) + " errors of the CUDA driver, last code " + std::to_string(code));
  gpu_stop("too many errors of the CUDA driver", 0);
  return true;
}

void GpuPoller::take_pending() noexcept {
  while (backlog_count_ < kGpuSlots) {
    const uint32_t slot = shared_.pool->pending.pop();
    if (slot == kNoSlot) return;
    backlog_[backlog_count_++] = slot;
  }
}

uint32_t GpuPoller::pass() noexcept {
  take_pending();
  if (reference_ == kNoSlot && own_stream_) return 0;  // no axis yet: the next calibration makes it
  CuStream blocked[kMaxStreams];
  uint32_t blocked_count = 0, kept = 0, done = 0;
  for (uint32_t i = 0; i < backlog_count_; ++i) {
    const uint32_t slot = backlog_[i];
    CuStream stream = shared_.pool->slots[slot].stream;
    const bool behind = std::find(blocked, blocked + blocked_count, stream) != blocked + blocked_count;
    if (!behind && blocked_count < kMaxStreams && resolve(slot)) {
      ++done;
      continue;
    }
    if (!behind && blocked_count < kMaxStreams) blocked[blocked_count++] = stream;
    backlog_[kept++] = slot;
  }
  backlog_count_ = kept;
  return done;
}

// False while the GPU has not reached it; true when the slot is done with, for better or worse.
bool GpuPoller::resolve(uint32_t index) noexcept {
  EventSlot& slot = shared_.pool->slots[index];
  const CuResult rc = shared_.api->event_query(slot.event);
  if (rc == kCuNotReady) return false;
  int64_t gpu_ns = 0;
  if (rc != kCuSuccess) {
    gpu_count_error(rc);
  } else if (slot.use == SlotUse::kScalar) {
    resolve_scalar(index);
  } else if (gpu_time(index, gpu_ns)) {
    if (!own_stream_) calibrate_from(slot, gpu_ns);
    slot.use == SlotUse::kMark ? resolve_mark(slot, gpu_ns) : resolve_span(slot, gpu_ns);
  }
  if (slot.begin != kNoSlot) shared_.pool->free.push(slot.begin);
  if (rc == kCuSuccess && slot.use != SlotUse::kScalar && axis_.wants_rebase(gpu_ns)) {
    axis_.rebase(gpu_ns);
    std::swap(reference_, index);
  }
  release(index);
  return true;
}

void GpuPoller::release(uint32_t slot) noexcept {
  if (slot != kNoSlot && slot != reference_) shared_.pool->free.push(slot);
}

bool GpuPoller::gpu_time(uint32_t index, int64_t& gpu_ns) noexcept {
  if (reference_ == kNoSlot) {  // without a stream of our own the first event is the origin
    reference_ = index;
    gpu_ns = axis_.at(0);
    return true;
  }
  float ms = 0;
  if (const CuResult rc =
          shared_.api->event_elapsed(&ms, shared_.pool->slots[reference_].event, shared_.pool->slots[index].event);
      rc != kCuSuccess) {
    gpu_count_error(rc);
    return false;
  }
  gpu_ns = axis_.at(ms);
  return true;
}

void GpuPoller::resolve_mark(const EventSlot& slot, int64_t gpu_ns) noexcept {
  const uint64_t at_ns = clock_.to_host(gpu_ns);
  const bool dry = at_ns < slot.host_ns + kHostBoundNs + clock_.half_bracket_ns();
  shared_.resolved.fetch_add(1, std::memory_order_relaxed);
  gpu_write(slot.host_ns, Kind::kGpuMark, Edge::kMark, slot.packed, slot.id, at_ns, static_cast<uint64_t>(gpu_ns),
            dry ? kGpuHostBound : 0);
}

void GpuPoller::resolve_span(const EventSlot& slot, int64_t end_ns) noexcept {
  int64_t begin_ns = 0;
  const bool has_begin = slot.begin != kNoSlot && gpu_time(slot.begin, begin_ns);
  shared_.resolved.fetch_add(1, std::memory_order_relaxed);
  if (GpuSpanHandler handler = shared_.span_handler.load(std::memory_order_acquire))
    handler(slot.id, has_begin ? clock_.to_host(begin_ns) : 0, clock_.to_host(end_ns));
}

void GpuPoller::resolve_scalar(uint32_t index) noexcept {
  const EventSlot& slot = shared_.pool->slots[index];
  const double value = scalar_at(&shared_.scalars[index], static_cast<ScalarFormat>(slot.packed));
  gpu_write(monotonic_ns(), Kind::kScalar, Edge::kMark, slot.id, std::bit_cast<uint64_t>(value), slot.host_ns, 0, 0);
}

bool GpuPoller::probe(uint32_t index, uint64_t& lo_ns, uint64_t& hi_ns) noexcept {
  CuEvent event = shared_.pool->slots[index].event;
  lo_ns = monotonic_ns();
  if (const CuResult rc = shared_.api->event_record(event, own_stream_); rc != kCuSuccess) {
    gpu_count_error(rc);
    return false;
  }
  while (true) {
    const CuResult rc = shared_.api->event_query(event);
    hi_ns = monotonic_ns();
    if (rc == kCuSuccess) return true;
    if (rc != kCuNotReady) return gpu_count_error(rc), false;
    if (hi_ns - lo_ns < kProbeLimitNs) continue;
    // Behind other work in the same hardware queue: wait for it without burning a core, but not for ever.
    if (hi_ns - lo_ns > 300 * kMs || shared_.stop.load()) return false;
    timespec pause{0, static_cast<long>(kMs) / 5};
    ::nanosleep(&pause, nullptr);
  }
}

void GpuPoller::calibrate() noexcept {
  if (!own_stream_) return;
  uint32_t best = kNoSlot;
  uint64_t best_lo = 0, best_hi = 0;
  for (int i = 0; i < kProbes; ++i) {
    const uint32_t slot = shared_.pool->free.pop();
    if (slot == kNoSlot) break;
    uint64_t lo = 0, hi = 0;
    const bool ok = probe(slot, lo, hi);
    if (ok && (best == kNoSlot || hi - lo < best_hi - best_lo)) {
      release(best);
      best = slot;
      best_lo = lo;
      best_hi = hi;
    } else {
      shared_.pool->free.push(slot);
    }
    if (!ok || hi - lo > kProbeLimitNs) break;
  }
  int64_t gpu_ns = 0;
  if (best == kNoSlot) {
    // A stream of our own that is never reached is of no use: take what the training's marks tell.
    if (reference_ == kNoSlot && ++failed_calibrations_ == kMaxFailedCalibrations) own_stream_ = nullptr;
    return;
  }
  if (gpu_time(best, gpu_ns) && clock_.calibrate(gpu_ns, best_lo, best_hi)) {
    ++calibrations_;
    shared_.bracket_ns.store(clock_.half_bracket_ns(), std::memory_order_relaxed);
  }
  if (axis_.wants_rebase(gpu_ns)) {
    axis_.rebase(gpu_ns);
    std::swap(reference_, best);
  }
  release(best);
}

// Without a stream of our own: the GPU reached the event after it was recorded and before it was seen.
void GpuPoller::calibrate_from(const EventSlot& slot, int64_t gpu_ns) noexcept {
  if (slot.use != SlotUse::kMark) return;
  const uint64_t seen_ns = monotonic_ns();
  if (clock_.ready() && seen_ns < next_calibration_ns_) return;
  if (!clock_.calibrate(gpu_ns, slot.host_ns, seen_ns)) return;
  ++calibrations_;
  next_calibration_ns_ = seen_ns + 1000 * kMs;
  shared_.bracket_ns.store(clock_.half_bracket_ns(), std::memory_order_relaxed);
}

void GpuPoller::write_status(bool last) noexcept {
  const uint64_t now = monotonic_ns();
  const uint64_t missing = shared_.missing.load(), errors = shared_.errors.load();
  // Trouble that goes on is told once a second at most, quiet every ten.
  if (!last && missing + errors != reported_trouble_ && now + kStatusEveryNs < next_status_ns_ + 1000 * kMs) return;
  reported_trouble_ = missing + errors;
  next_status_ns_ = now + kStatusEveryNs;
  const uint64_t code = static_cast<uint32_t>(shared_.last_error.load());
  gpu_write(now, Kind::kGpuStatus, Edge::kMark, shared_.resolved.load(), missing, (errors & 0xffffffffu) | code << 32,
            shared_.bracket_ns.load(), 0);
}

void gpu_reset_for_test() noexcept {
  for (uint32_t i = 0; g_gpu.pool && i < g_gpu.events.load(); ++i) g_gpu.api->event_destroy(g_gpu.pool->slots[i].event);
  delete g_gpu.pool;
  g_gpu.pool = nullptr;
  g_gpu.events.store(0);
  g_gpu.marked = g_gpu.resolved = g_gpu.missing = g_gpu.captured = g_gpu.errors = g_gpu.bracket_ns = 0;
  g_gpu.last_error = 0;
  g_gpu.context = nullptr;
  g_gpu.device = -1;
  g_gpu.reason = "not armed";
  g_gpu.state = GpuState::kOff;
}

}  // namespace stepscope::recorder
