#include "recorder/cuda_api.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>

namespace stepscope::recorder {
namespace {

std::atomic<const CudaApi*> g_api{nullptr};

template <class F>
bool take(void* library, F& out, std::string& reason, const char* name, const char* older = nullptr) {
  void* symbol = ::dlsym(library, name);
  if (!symbol && older) symbol = ::dlsym(library, older);
  if (!symbol) {
    if (reason.empty()) reason = std::string("libcuda has no ") + (older ? older : name);
    return false;
  }
  out = reinterpret_cast<F>(symbol);
  return true;
}

void* open_library(std::string& reason) {
  if (const char* path = std::getenv("STEPSCOPE_CUDA_LIBRARY"); path && *path) {
    void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) reason = std::string("cannot load ") + path;
    return library;
  }
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (!library) reason = "libcuda.so.1 is not loaded in this process";
  return library;
}

}  // namespace

bool load_cuda_api(void* library, CudaApi& api, std::string& reason) {
  reason.clear();
  bool ok = take(library, api.event_create, reason, "cuEventCreate");
  ok &= take(library, api.event_destroy, reason, "cuEventDestroy_v2", "cuEventDestroy");
  ok &= take(library, api.event_record, reason, "cuEventRecord");
  ok &= take(library, api.event_query, reason, "cuEventQuery");
  ok &= take(library, api.event_elapsed, reason, "cuEventElapsedTime_v2", "cuEventElapsedTime");
  ok &= take(library, api.stream_is_capturing, reason, "cuStreamIsCapturing");
  ok &= take(library, api.stream_create, reason, "cuStreamCreate");
  ok &= take(library, api.stream_destroy, reason, "cuStreamDestroy_v2", "cuStreamDestroy");
  ok &= take(library, api.exchange_capture_mode, reason, "cuThreadExchangeStreamCaptureMode");
  ok &= take(library, api.context_get, reason, "cuCtxGetCurrent");
  ok &= take(library, api.context_set, reason, "cuCtxSetCurrent");
  ok &= take(library, api.context_device, reason, "cuCtxGetDevice");
  ok &= take(library, api.primary_state, reason, "cuDevicePrimaryCtxGetState");
  std::string missing;
  api.host_alloc = nullptr, api.copy_to_host = nullptr;
  take(library, api.host_alloc, missing, "cuMemHostAlloc");
  take(library, api.copy_to_host, missing, "cuMemcpyDtoHAsync_v2");
  return ok;
}

const CudaApi* find_cuda_api(std::string& reason) {
  if (const CudaApi* api = g_api.load(std::memory_order_acquire)) return api;
  static std::mutex mutex;
  static CudaApi table;
  const std::scoped_lock lock(mutex);
  if (const CudaApi* api = g_api.load(std::memory_order_acquire)) return api;
  void* library = open_library(reason);
  if (!library || !load_cuda_api(library, table, reason)) return nullptr;
  g_api.store(&table, std::memory_order_release);
  return &table;
}

void inject_cuda_api(const CudaApi* api) { g_api.store(api, std::memory_order_release); }

}  // namespace stepscope::recorder
