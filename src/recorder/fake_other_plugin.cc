// A profiler plugin of the user's, for tests of chain-loading: speaks version 4 only, counts what it is told and checks
// that its own handles come back as parents. FAKE_OTHER_MASK is what it asks for.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <mutex>

#include "recorder/nccl_abi.h"

using namespace stepscope::recorder::nccl;

namespace {

struct Node {
  uint64_t magic = 0x07e12;
  uint64_t type = 0;
  bool stopped = false;
};
struct Context {
  uint64_t magic = 0xc0111;
};

std::atomic<uint64_t> g_inits{0}, g_starts{0}, g_stops{0}, g_states{0}, g_finals{0}, g_wrong{0}, g_parents{0},
    g_types{0};

// Kept for ever: an operation is a parent after it was stopped.
Node* make_node() {
  static std::mutex mutex;
  static auto* nodes = new std::deque<Node>;
  const std::scoped_lock lock(mutex);
  return &nodes->emplace_back();
}

bool mine(void* p) { return p && static_cast<Node*>(p)->magic == 0x07e12; }

int init(void** context, int* mask, const char*, uint64_t, int, int, int, LogFunction) {
  *context = new Context;
  const char* asked = std::getenv("FAKE_OTHER_MASK");
  *mask = asked ? std::atoi(asked) : static_cast<int>(kColl | kGroup);
  ++g_inits;
  return 0;
}
int start(void* context, void** handle, DescriptorV4* d) {
  if (!context || static_cast<Context*>(context)->magic != 0xc0111) ++g_wrong;
  if (d->parent) mine(d->parent) ? ++g_parents : ++g_wrong;
  Node* node = make_node();
  node->type = d->type;
  g_types |= d->type;
  *handle = node;
  ++g_starts;
  return 0;
}
int stop(void* handle) {
  if (!mine(handle) || static_cast<Node*>(handle)->stopped) return ++g_wrong, 0;
  static_cast<Node*>(handle)->stopped = true;
  ++g_stops;
  return 0;
}
int state(void* handle, int, StateArgs*) {
  mine(handle) ? ++g_states : ++g_wrong;
  return 0;
}
int finalize(void* context) {
  ++g_finals;
  delete static_cast<Context*>(context);
  return 0;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) TableV4 ncclProfiler_v4 = {"other", init, start, stop, state, finalize};
// inits, starts, stops, states, finals, wrong, parents, types
__attribute__((visibility("default"))) void fake_other_counts(uint64_t* out) {
  const std::atomic<uint64_t>* all[] = {&g_inits,  &g_starts, &g_stops,   &g_states,
                                        &g_finals, &g_wrong,  &g_parents, &g_types};
  for (int i = 0; i < 8; ++i) out[i] = *all[i];
}
}
