// The hot path. tools/check_symbols.py refuses anything in this object that allocates, throws, locks or does stream
// I/O.
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder/recorder.h"
#include "recorder/signal_stack.h"
#include "recorder/state.h"

namespace stepscope::recorder {
namespace {

constinit thread_local uint32_t t_thread_id = 0;

uint32_t thread_id() noexcept {
  if (t_thread_id == 0) [[unlikely]] {
    t_thread_id = static_cast<uint32_t>(::gettid());
    offer_thread();
  }
  return t_thread_id;
}

uint64_t microseconds(const timeval& t) {
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000 + static_cast<uint64_t>(t.tv_usec);
}

constexpr bool ends_step(uint16_t packed) {
  return packed == pack_kind(Kind::kOptimizer, Edge::kEnd) || packed == pack_kind(Kind::kStep, Edge::kEnd);
}

}  // namespace

void forget_thread_id() noexcept { t_thread_id = 0; }

void mark_at(uint64_t time_ns, Kind kind, Edge edge, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
             uint16_t flags) noexcept {
  blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire);
  if (!ring) return;
  const uint16_t packed = pack_kind(kind, edge);
  ring->put(
      {.time_ns = time_ns, .kind = packed, .flags = flags, .thread = thread_id(), .a = a, .b = b, .c = c, .d = d});
  if (ends_step(packed) && ring->header().control.stop.load(std::memory_order_relaxed) != 0) [[unlikely]]
    turn_off("stopped by the agent");
}

void mark(Kind kind, Edge edge, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint16_t flags) noexcept {
  if (!g_state.ring.load(std::memory_order_relaxed)) return;  // saves the clock when off
  mark_at(monotonic_ns(), kind, edge, a, b, c, d, flags);
}

void usage_mark() noexcept {
  if (!g_state.ring.load(std::memory_order_relaxed)) return;
  rusage u;
  if (::getrusage(RUSAGE_THREAD, &u) != 0) return;
  const uint64_t cpu_ns = (microseconds(u.ru_utime) + microseconds(u.ru_stime)) * 1000;
  mark(Kind::kUsage, Edge::kMark, cpu_ns, static_cast<uint64_t>(u.ru_nivcsw), static_cast<uint64_t>(u.ru_nvcsw),
       static_cast<uint64_t>(u.ru_majflt));
}

bool name(NameKind kind, uint64_t id, std::string_view text) noexcept {
  blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire);
  return ring && ring->add_name(kind, id, text);
}

void count_dropped_name() noexcept {
  if (blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire))
    ring->header().names_dropped.fetch_add(1, std::memory_order_relaxed);
}

const blackbox::Control* control() noexcept {
  blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire);
  return ring ? &ring->header().control : nullptr;
}

void add_evidence(uint64_t bits) noexcept {
  blackbox::RingWriter* ring = g_state.ring.load(std::memory_order_acquire);
  if (!ring) return;
  std::atomic<uint64_t>& word = ring->header().evidence;
  if ((word.load(std::memory_order_relaxed) & bits) != bits) word.fetch_or(bits, std::memory_order_relaxed);
}

void worker_mark(Edge edge, uint64_t worker_id, uint64_t loader_id, uint64_t items) noexcept {
  blackbox::RingWriter* ring = g_state.worker.load(std::memory_order_acquire);
  if (!ring) return;
  ring->put({.time_ns = monotonic_ns(),
             .kind = pack_kind(Kind::kWorkerFetch, edge),
             .flags = 0,
             .thread = thread_id(),
             .a = worker_id,
             .b = loader_id,
             .c = items,
             .d = 0});
}

}  // namespace stepscope::recorder
