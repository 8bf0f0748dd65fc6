// The few functions of the CUDA driver that the recorder calls, found at run time. No CUDA header, no link dependency.
//
// Ownership: the table is static and lives for ever; the library is never unloaded by us.
// Threads: find_cuda_api() may be called from any thread; the pointers follow the driver's own rules.
// Failure: a missing library or symbol leaves a reason in one line and no table; nothing else is touched. The driver is
// never initialised here (no cuInit): a process that does not use CUDA stays one.
#pragma once

#include <cstdint>
#include <string>

namespace stepscope::recorder {

using CuResult = int;
using CuDevice = int;
using CuEvent = void*;
using CuStream = void*;
using CuContext = void*;

inline constexpr CuResult kCuSuccess = 0;
inline constexpr CuResult kCuDeinitialized = 4;
inline constexpr CuResult kCuInvalidContext = 201;  // this thread has none, or another one
inline constexpr CuResult kCuInvalidHandle = 400;   // a stream of another device
inline constexpr CuResult kCuNotReady = 600;
inline constexpr CuResult kCuStreamCaptureImplicit = 906;  // asked of the legacy stream while another one is capturing
inline constexpr int kCuCaptureNone = 0;                   // CUstreamCaptureStatus
inline constexpr int kCuCaptureModeRelaxed = 2;            // CUstreamCaptureMode
inline constexpr unsigned kCuStreamNonBlocking = 1;
inline constexpr unsigned kCuHostPortable = 1;

struct CudaApi {
  CuResult (*event_create)(CuEvent*, unsigned flags);
  CuResult (*event_destroy)(CuEvent);
  CuResult (*event_record)(CuEvent, CuStream);
  CuResult (*event_query)(CuEvent);
  CuResult (*event_elapsed)(float* ms, CuEvent begin, CuEvent end);
  CuResult (*stream_is_capturing)(CuStream, int* status);
  CuResult (*stream_create)(CuStream*, unsigned flags);
  CuResult (*stream_destroy)(CuStream);
  CuResult (*exchange_capture_mode)(int* mode);
  CuResult (*context_get)(CuContext*);
  CuResult (*context_set)(CuContext);
  CuResult (*context_device)(CuDevice*);
  CuResult (*primary_state)(CuDevice, unsigned* flags, int* active);
  // Null where the library lacks them: then no number is read from the device.
  CuResult (*host_alloc)(void**, size_t bytes, unsigned flags);
  CuResult (*copy_to_host)(void* to, uint64_t from, size_t bytes, CuStream);
};

// Looks for libcuda.so.1 in this process (it is not loaded when absent), or at the path in STEPSCOPE_CUDA_LIBRARY
// (loaded then; for tests). Null with `reason` filled in when it is not there (yet) or lacks a symbol. A found table is
// kept.
const CudaApi* find_cuda_api(std::string& reason);

// Puts `api` in place of the driver; null = look for it again. For tests.
void inject_cuda_api(const CudaApi* api);

// Fills `api` from an open library; on failure false and `reason` names the first missing symbol.
bool load_cuda_api(void* library, CudaApi& api, std::string& reason);

}  // namespace stepscope::recorder
