// Device side of the extension: arms the event timeline with torch's functions, marks boundaries, reads the allocator.
// Copies and syncs that Python code asks for: python_copy.cc.
#include "recorder/python_gpu.h"

#include <algorithm>

#include "base/clock.h"
#include "python_hooks.h"
#include "recorder/gpu_timeline.h"
#include "recorder/nccl_plugin.h"
#include "recorder/python_copy.h"
#include "recorder/recorder.h"

namespace stepscope::recorder {

constinit std::atomic<bool> g_gpu_armed{false};

namespace {

constexpr uint64_t kRetryNs = 50'000'000;        // CUDA not in use yet: how often to look
constexpr uint64_t kMemoryEveryNs = 10'000'000;  // reading the allocator costs about 10 us
// Wait points (FSDP has two or three per layer) are marked in every step as long as that costs less than this share of
// the time that passes, else in every 2nd, 4th or 8th. Judged over blocks, since a host that runs ahead of its GPU
// makes the first steps look short.
constexpr uint64_t kWaitMarkNs = 2'500, kWaitCostDivisor = 400, kMaxWaitStride = 8;
constexpr uint64_t kWaitBlockNs = 500'000'000, kWaitBlockSteps = 16;
// A number costs a copy and an event, about 5 us of the host and a few of the stream: at most as often as this, and few
// in one step (backwards that accumulate).
constexpr uint32_t kMostScalars = 4;
constexpr uint32_t kMostMemorySkips = 2;  // a program may never come to the other boundary

constexpr uint32_t kMaxOptimizerMarks = 16;  // per backward
constexpr uint64_t kWindowNs = 10'000'000;
constexpr uint32_t kMaxWindowMarks = 128;

struct GpuHooks {
  PyObject* raw_stream = nullptr;    // torch._C._cuda_getCurrentRawStream
  PyObject* memory_stats = nullptr;  // torch._C._cuda_memoryStats
  PyObject* on_start = nullptr;      // called once when CUDA is in use
  PyObject* device = nullptr;        // int
  uint64_t next_try_ns = 0, next_memory_ns = 0, optimizer_ends = 0;
  uint64_t peaks[2] = {}, counters[4] = {};
  uint64_t allocated = 0;
  uint16_t memory_at = 0;     // boundary of the newest reading
  uint32_t memory_skips = 0;  // chances at that boundary that were left to the other one
  uint64_t scalar_step = 0;
  uint32_t scalars = 0;  // in that step
  uint64_t window_ns = 0;
  uint32_t window_marks = 0, optimizer_marks = 0;
  uint64_t wait_stride = 1, wait_marks = 0, wait_block_ns = 0,
           wait_block_end = 0;  // of the block: its begin, its first optimizer end
};
constinit GpuHooks g_hooks_gpu;

CuStream current_stream() noexcept {
  const GpuHooks& h = g_hooks_gpu;
  const Ref stream(PyObject_CallFunctionObjArgs(h.raw_stream, h.device, nullptr));
  if (!stream) drop_error();
  return reinterpret_cast<CuStream>(as_u64(stream.get()));
}

// False while there is no CUDA context on this thread. The first success makes the events: a few ms, once.
bool started() noexcept {
  if (!active()) return false;
  if (gpu_running() && g_hooks_gpu.device) [[likely]]
    return true;
  if (gpu_state() == GpuState::kStopped) {
    g_gpu_armed.store(false, std::memory_order_relaxed);
    return false;
  }
  const uint64_t now = monotonic_ns();
  if (now < g_hooks_gpu.next_try_ns) return false;
  g_hooks_gpu.next_try_ns = now + kRetryNs;
  if (!gpu_try_start()) return false;
  g_hooks_gpu.device = PyLong_FromLong(gpu_device());
  if (!g_hooks_gpu.device) return drop_error(), false;
  if (g_hooks_gpu.on_start) call_quietly(g_hooks_gpu.on_start, g_hooks_gpu.device);
  return true;
}

// An event costs about 3 us. Programs with an optimizer per parameter, or with thousands of phases of their own, would
// feel them: the first ones are marked, the host's records tell the rest.
bool affordable(Kind kind, Edge edge, uint64_t now) noexcept {
  GpuHooks& h = g_hooks_gpu;
  if (kind == Kind::kForward || (kind == Kind::kBackward && edge == Edge::kBegin)) h.optimizer_marks = 0;
  if ((kind == Kind::kOptimizer || kind == Kind::kScalerStep) && ++h.optimizer_marks > kMaxOptimizerMarks) return false;
  if (now - h.window_ns > kWindowNs) h.window_ns = now, h.window_marks = 0;
  return ++h.window_marks <= kMaxWindowMarks;
}

// ---- the allocator ----

uint64_t stat(PyObject* stats, const char* name, const char* which = nullptr) noexcept {
  PyObject* value = PyDict_GetItemString(stats, name);  // borrowed, never an error
  if (which && value && PyDict_Check(value)) {
    PyObject* all = PyDict_GetItemString(value, "all");
    value = all && PyDict_Check(all) ? PyDict_GetItemString(all, which) : nullptr;
  }
  return as_u64(value);
}

template <size_t N>
bool changed(uint64_t (&kept)[N], const uint64_t (&fresh)[N]) noexcept {
  const bool differs = !std::equal(kept, kept + N, fresh);
  std::copy(fresh, fresh + N, kept);
  return differs;
}

// `at` is the boundary at which it is read: figures of the same boundary are compared over steps.
void write_memory(uint64_t now, uint16_t at) noexcept {
  GpuHooks& h = g_hooks_gpu;
  const Ref stats(PyObject_CallFunctionObjArgs(h.memory_stats, h.device, nullptr));
  if (!stats || !PyDict_Check(stats.get())) return drop_error();
  PyObject* s = stats.get();
  h.allocated = stat(s, "allocated_bytes", "current");
  mark_at(now, Kind::kMemory, Edge::kMark, h.allocated, stat(s, "reserved_bytes", "current"),
          stat(s, "active_bytes", "current"), stat(s, "inactive_split_bytes", "current"), at);
  const uint64_t peaks[2] = {stat(s, "allocated_bytes", "peak"), stat(s, "reserved_bytes", "peak")};
  if (changed(h.peaks, peaks)) mark_at(now, Kind::kMemoryPeak, Edge::kMark, peaks[0], peaks[1], 0, 0, at);
  const uint64_t counters[4] = {stat(s, "num_alloc_retries"), stat(s, "num_ooms"), stat(s, "num_device_alloc"),
                                stat(s, "num_device_free")};
  if (changed(h.counters, counters))
    mark_at(now, Kind::kMemoryCounters, Edge::kMark, counters[0], counters[1], counters[2], counters[3], at);
}

void memory_tick(uint16_t at) noexcept {
  if (!g_hooks_gpu.memory_stats) return;
  const uint64_t now = monotonic_ns();
  GpuHooks& h = g_hooks_gpu;
  if (now < h.next_memory_ns) return;
  // The two boundaries of a step lie close together on the host: without turns one of them would never be read.
  if (at == h.memory_at && h.memory_skips < kMostMemorySkips) {
    ++h.memory_skips;
    return;
  }
  h.memory_at = at;
  h.memory_skips = 0;
  h.next_memory_ns = now + kMemoryEveryNs;
  write_memory(now, at);
}

// From the wait points that were passed and the time that passed. Strides are powers of two, so that ranks which choose
// differently still mark common steps.
void choose_wait_stride(uint64_t now) noexcept {
  GpuHooks& h = g_hooks_gpu;
  if (h.wait_block_ns == 0) h.wait_block_ns = now, h.wait_block_end = h.optimizer_ends, h.wait_marks = 0;
  const uint64_t passed_ns = now - h.wait_block_ns;
  if (passed_ns < kWaitBlockNs || h.optimizer_ends - h.wait_block_end < kWaitBlockSteps) return;
  h.wait_stride = 1;
  while (h.wait_stride < kMaxWaitStride && h.wait_marks * kWaitMarkNs * kWaitCostDivisor > passed_ns * h.wait_stride)
    h.wait_stride *= 2;
  h.wait_block_ns = now, h.wait_block_end = h.optimizer_ends, h.wait_marks = 0;
}

}  // namespace

void gpu_boundary_slow(Kind kind, Edge edge, uint64_t id, uint64_t host_ns) noexcept {
  const KeepError keep;
  if (!started()) return;
  if (host_ns == 0) host_ns = monotonic_ns();
  if (affordable(kind, edge, host_ns)) gpu_mark(kind, edge, id, current_stream(), host_ns);
  if (kind == Kind::kBackward && edge == Edge::kBegin) memory_tick(pack_kind(kind, edge));
  if (kind == Kind::kOptimizer && edge == Edge::kEnd) {
    ++g_hooks_gpu.optimizer_ends;
    choose_wait_stride(host_ns);
    nccl::step_end(g_hooks.stamping);
    memory_tick(pack_kind(kind, edge));
  }
}

void gpu_wait_point_slow(GpuWaitPoint point, Edge edge) noexcept {
  ++g_hooks_gpu.wait_marks;
  if (g_hooks_gpu.optimizer_ends % g_hooks_gpu.wait_stride != 0) return;
  gpu_boundary_slow(Kind::kWait, edge, static_cast<uint64_t>(point), 0);
}

void gpu_read_scalar(uint64_t address, ScalarFormat format, ScalarOf what) noexcept {
  GpuHooks& h = g_hooks_gpu;
  if (h.scalar_step != h.optimizer_ends) h.scalar_step = h.optimizer_ends, h.scalars = 0;
  if (++h.scalars > kMostScalars || !started()) return;
  gpu_scalar(address, format, what, current_stream(), monotonic_ns());
}

namespace {

PyObject* arm(PyObject*, PyObject* args) {
  PyObject *raw_stream, *memory_stats, *on_start;
  if (!PyArg_ParseTuple(args, "OOO:gpu_arm", &raw_stream, &memory_stats, &on_start)) return nullptr;
  hold(g_hooks_gpu.raw_stream, raw_stream);
  hold(g_hooks_gpu.memory_stats, memory_stats == Py_None ? nullptr : memory_stats);
  hold(g_hooks_gpu.on_start, on_start == Py_None ? nullptr : on_start);
  const bool armed = gpu_arm();
  g_gpu_armed.store(armed);
  return PyBool_FromLong(armed);
}

PyObject* try_start(PyObject*, PyObject*) {
  g_hooks_gpu.next_try_ns = 0;
  return PyBool_FromLong(g_gpu_armed.load() && started());
}

PyObject* stop(PyObject*, PyObject*) {
  g_gpu_armed.store(false);
  Py_BEGIN_ALLOW_THREADS;
  gpu_stop("the interpreter exits");
  Py_END_ALLOW_THREADS;
  return none();
}

PyObject* state(PyObject*, PyObject*) {
  static constexpr const char* kNames[] = {"off", "armed", "starting", "running", "stopped"};
  const GpuCounts c = gpu_counts();
  return Py_BuildValue("{s:s,s:s,s:i,s:K,s:K,s:K,s:K,s:K,s:i,s:I,s:K}", "state", kNames[static_cast<int>(gpu_state())],
                       "reason", gpu_reason(), "device", gpu_device(), "marked", c.marked, "resolved", c.resolved,
                       "missing", c.missing, "captured", c.captured, "errors", c.errors, "last_error", c.last_error,
                       "events", c.events, "bracket_ns", c.bracket_ns);
}

PyObject* boundary(PyObject*, PyObject* args) {
  unsigned kind, edge;
  unsigned long long id = 0;
  if (!PyArg_ParseTuple(args, "II|K:gpu_boundary", &kind, &edge, &id)) return nullptr;
  gpu_boundary(static_cast<Kind>(kind), static_cast<Edge>(edge), id);
  return none();
}

// The allocator's observer, through memory.py: one failure can be reported twice, and a retry in a loop many times.
PyObject* out_of_memory(PyObject*, PyObject* args) {
  unsigned long long requested, capacity, free, reserved, inactive, largest, allocated;
  if (!PyArg_ParseTuple(args, "KKKKKKK:gpu_out_of_memory", &requested, &capacity, &free, &allocated, &reserved,
                        &inactive, &largest))
    return nullptr;
  const uint64_t now = monotonic_ns();
  mark_at(now, Kind::kOutOfMemory, Edge::kMark, requested, allocated, reserved, capacity);
  mark_at(now, Kind::kOutOfMemoryDetail, Edge::kMark, largest, free, inactive,
          allocated > g_hooks_gpu.allocated ? allocated - g_hooks_gpu.allocated : 0);
  return none();
}

PyObject* nccl_state(PyObject*, PyObject*) {
  nccl::Plugin* plugin = nccl::Plugin::find_or_make();
  if (!plugin) return PyErr_NoMemory();
  const nccl::Plugin::Counts c = plugin->counts();
  const nccl::Choice& choice = plugin->choice();
  return Py_BuildValue("{s:s,s:s,s:I,s:K,s:K,s:K,s:K,s:O}", "mode", nccl::name_of(choice.mode), "reason",
                       choice.reason.c_str(), "comms", c.comms, "ops", c.ops, "launches", c.launches, "refused",
                       c.refused, "stride", c.stride, "window", c.window ? Py_True : Py_False);
}

PyObject* nccl_chain_version(PyObject*, PyObject* name) { return PyLong_FromLong(nccl::chain_version(utf8(name))); }

PyMethodDef g_functions[] = {
    {"gpu_arm", as_method(arm), METH_VARARGS,
     "gpu_arm(raw_stream, memory_stats | None, on_start | None) -> bool: device marks from the first boundary on that\n"
     "finds a CUDA context. raw_stream(device) -> int, memory_stats(device) -> dict, on_start(device)."},
    {"gpu_try_start", as_method(try_start), METH_NOARGS, "gpu_try_start() -> bool: start now if CUDA is in use."},
    {"gpu_stop", as_method(stop), METH_NOARGS, "gpu_stop(): resolve what is finished and end the poller."},
    {"gpu_state", as_method(state), METH_NOARGS, "gpu_state() -> dict: state, reason, counts; times in ns."},
    {"gpu_boundary", as_method(boundary), METH_VARARGS,
     "gpu_boundary(kind, edge, id=0): mark on torch's current stream."},
    {"gpu_out_of_memory", as_method(out_of_memory), METH_VARARGS,
     "gpu_out_of_memory(requested, capacity, free, allocated, reserved, inactive_split, largest_free): all bytes."},
    {"nccl_state", as_method(nccl_state), METH_NOARGS, "nccl_state() -> dict: mode of the NCCL plugin and its counts."},
    {"nccl_chain_version", as_method(nccl_chain_version), METH_O,
     "nccl_chain_version(path or name) -> int: newest profiler interface of that plugin, 0 = none."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_gpu_functions(PyObject* module) {
  if (PyModule_AddFunctions(module, g_functions) != 0) return -1;
  return add_copy_functions(module);
}

}  // namespace stepscope::recorder
