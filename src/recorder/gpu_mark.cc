// The hot path of the device side: runs on training threads and inside NCCL's launch. No allocation, no lock.
#include "base/clock.h"
#include "recorder/gpu_state.h"

namespace stepscope::recorder {

bool gpu_capturing(CuStream stream) noexcept {
  int status = kCuCaptureNone;
  // An error here (the legacy stream while another one captures) means as well: leave this stream alone.
  return g_gpu.api->stream_is_capturing(stream, &status) != kCuSuccess || status != kCuCaptureNone;
}

uint32_t gpu_event(CuStream stream) noexcept {
  if (!gpu_running()) return kNoSlot;
  const uint32_t slot = g_gpu.pool->free.pop();
  if (slot == kNoSlot) {
    g_gpu.missing.fetch_add(1, std::memory_order_relaxed);
    return kNoSlot;
  }
  if (const CuResult rc = g_gpu.api->event_record(g_gpu.pool->slots[slot].event, stream); rc != kCuSuccess)
      [[unlikely]] {
    // A thread or stream that belongs to another device is nobody's fault; anything else counts towards the end.
    if (rc == kCuInvalidContext || rc == kCuInvalidHandle)
      g_gpu.missing.fetch_add(1, std::memory_order_relaxed);
    else
      gpu_count_error(rc);
    g_gpu.pool->free.push(slot);
    return kNoSlot;
  }
  return slot;
}

void gpu_return_event(uint32_t slot) noexcept {
  if (slot != kNoSlot) g_gpu.pool->free.push(slot);
}

bool gpu_mark(Kind kind, Edge edge, uint64_t id, CuStream stream, uint64_t host_ns) noexcept {
  if (!gpu_running()) return false;
  if (host_ns == 0) host_ns = monotonic_ns();
  const uint16_t packed = pack_kind(kind, edge);
  if (gpu_capturing(stream)) [[unlikely]] {
    g_gpu.captured.fetch_add(1, std::memory_order_relaxed);
    gpu_write(host_ns, Kind::kGpuMark, Edge::kMark, packed, id, 0, 0, kGpuCaptured);
    return false;
  }
  const uint32_t index = gpu_event(stream);
  if (index == kNoSlot) return false;
  EventSlot& slot = g_gpu.pool->slots[index];
  slot.stream = stream;
  slot.host_ns = host_ns;
  slot.id = id;
  slot.begin = kNoSlot;
  slot.packed = packed;
  slot.use = SlotUse::kMark;
  g_gpu.marked.fetch_add(1, std::memory_order_relaxed);
  g_gpu.pool->pending.push(index);
  return true;
}

bool gpu_scalar(uint64_t address, ScalarFormat format, ScalarOf what, CuStream stream, uint64_t host_ns) noexcept {
  if (!gpu_running() || !g_gpu.scalars || gpu_capturing(stream)) return false;
  const uint32_t index = g_gpu.pool->free.pop();
  if (index == kNoSlot) return false;
  EventSlot& slot = g_gpu.pool->slots[index];
  const CudaApi& api = *g_gpu.api;
  CuResult rc = api.copy_to_host(&g_gpu.scalars[index], address, bytes_of(format), stream);
  if (rc == kCuSuccess) rc = api.event_record(slot.event, stream);
  if (rc != kCuSuccess) [[unlikely]] {
    if (rc != kCuInvalidContext && rc != kCuInvalidHandle) gpu_count_error(rc);
    g_gpu.pool->free.push(index);
    return false;
  }
  slot.stream = stream;
  slot.host_ns = host_ns;
  slot.id = static_cast<uint64_t>(what);
  slot.begin = kNoSlot;
  slot.packed = static_cast<uint16_t>(format);
  slot.use = SlotUse::kScalar;
  g_gpu.pool->pending.push(index);
  return true;
}

void gpu_submit_span(uint32_t begin, uint32_t end, CuStream stream, uint64_t cookie) noexcept {
  if (end == kNoSlot) return gpu_return_event(begin);
  EventSlot& slot = g_gpu.pool->slots[end];
  slot.stream = stream;
  slot.host_ns = 0;
  slot.id = cookie;
  slot.begin = begin;
  slot.packed = 0;
  slot.use = SlotUse::kSpanEnd;
  g_gpu.pool->pending.push(end);
}

}  // namespace stepscope::recorder
