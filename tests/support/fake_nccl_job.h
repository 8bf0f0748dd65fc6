// A communicator of the fake NCCL over the fake GPU, with the plugin in it: what the tests of the plugin share.
#pragma once

#include <algorithm>

#include "fake_gpu.h"
#include "recorder/fake_nccl.h"
#include "recorder/nccl_names.h"
#include "recorder/nccl_plugin.h"

extern "C" {
extern stepscope::recorder::nccl::TableV3 ncclProfiler_v3;
extern stepscope::recorder::nccl::TableV4 ncclProfiler_v4;
extern stepscope::recorder::nccl::TableV5 ncclProfiler_v5;
extern stepscope::recorder::nccl::TableV6 ncclProfiler_v6;
}

namespace stepscope::recorder {

using namespace nccl;

inline constexpr uint64_t kHash = 0xabcdef0123456789;
inline void* const kStream = reinterpret_cast<void*>(0x11);

inline uint64_t key(uint64_t sequence, CollectiveOp op, uint64_t peer = 0) {
  return sequence | peer << 40 | static_cast<uint64_t>(op) << 56;
}

class NcclPlugin : public FakeGpu {
 protected:
  FakeNccl fake(int api) {
    FakeNccl nccl(api);
    void* tables[] = {&ncclProfiler_v3, &ncclProfiler_v4, &ncclProfiler_v5, &ncclProfiler_v6};
    nccl.use(tables[api - 3]);
    return nccl;
  }
  static void kernel_5ms(void* stream) { fake_cuda_work(stream, 5'000'000); }
};

}  // namespace stepscope::recorder
