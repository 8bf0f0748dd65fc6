// The device side seen from the Python extension: the one header that python_*.cc needs for GPUs.
//
// Call sites: wherever a phase boundary is marked on the host (optimizer begin and end, root forward begin and end,
// backward begin, own end and return, ScalerStep, UserPhase, Step), call gpu_boundary() right after the host mark with
// the same kind, edge and id; around Work.wait, gpu_wait_point(GpuWaitPoint::kWork, …). It also reads the allocator (at
// most every 10 ms, in turns) at backward begin and optimizer end.
//
// Threads: GIL held. Cost: 2 ns without CUDA; with CUDA about 0.1 us for the stream plus one cuEventRecord.
// Failure: none reaches the caller; a pending Python exception stays as it is.
#pragma once

#ifndef PY_SSIZE_T_CLEAN
#define PY_SSIZE_T_CLEAN
#endif
#include <Python.h>

#include <atomic>
#include <cstdint>

#include "blackbox/event_kind.h"
#include "recorder/scalar.h"

namespace stepscope::recorder {

// False until python/stepscope/hooks/device.py has armed the device side, and again after it was stopped.
extern constinit std::atomic<bool> g_gpu_armed;

void gpu_boundary_slow(Kind kind, Edge edge, uint64_t id, uint64_t host_ns) noexcept;

// Marks the boundary on torch's current stream of the current device. `host_ns`: CLOCK_MONOTONIC of the host mark of
// the same boundary when at hand (readers then join the two exactly), 0 = now.
inline void gpu_boundary(Kind kind, Edge edge, uint64_t id, uint64_t host_ns = 0) noexcept {
  if (g_gpu_armed.load(std::memory_order_relaxed)) [[unlikely]]
    gpu_boundary_slow(kind, edge, id, host_ns);
}

// Before (begin) and after (end) a point where the compute stream is made to wait for communication. Marked in sampled
// steps only, the same ones on every rank: a model in FSDP has two such points per layer.
void gpu_wait_point_slow(GpuWaitPoint point, Edge edge) noexcept;
inline void gpu_wait_point(GpuWaitPoint point, Edge edge) noexcept {
  if (g_gpu_armed.load(std::memory_order_relaxed)) [[unlikely]]
    gpu_wait_point_slow(point, edge);
}

// Reads a number of the device in passing: it is told when the current stream has come to it. In steps that all ranks
// choose alike, every one unless steps are shorter than kScalarEveryNs.
void gpu_read_scalar(uint64_t address, ScalarFormat format, ScalarOf what) noexcept;

// Adds the gpu_* functions that device.py, memory.py and h2d.py use. 0, or -1 with a Python error set.
int add_gpu_functions(PyObject* module);

}  // namespace stepscope::recorder
