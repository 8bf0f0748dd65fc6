// The data symbols that NCCL looks for, one per interface version, and the translation of their events into View.
// The library is linked with -z nodelete: NCCL closes it with its last communicator while our poller still runs.
#include "recorder/nccl_plugin.h"

namespace stepscope::recorder::nccl {
namespace {

constexpr char kName[] = "stepscope";

template <class Coll>
void take_coll(View& view, const Coll& coll) {
  view.func = coll.func;
  view.datatype = coll.datatype;
  view.algo = coll.algo;
  view.proto = coll.proto;
  view.count = coll.count;
  view.sequence = coll.sequence;
  view.peer = coll.root;
  view.channels = coll.channels;
}

template <class P2p>
void take_p2p(View& view, const P2p& p2p) {
  view.func = p2p.func;
  view.datatype = p2p.datatype;
  view.count = p2p.count;
  view.peer = p2p.peer;
}

template <class Descriptor>
View head_of(const Descriptor& d) {
  View view;
  view.type = d.type;
  view.parent = reinterpret_cast<Handle>(d.parent);
  view.rank = d.rank;
  if (view.type == kProxyOp) view.pid = d.proxy_op.pid;
  return view;
}

View view_of(const DescriptorV3& d) {
  View view = head_of(d);
  if (view.type == kColl) take_coll(view, d.coll), view.comm_hash = d.coll.comm_hash;
  if (view.type == kP2p) take_p2p(view, d.p2p), view.comm_hash = d.p2p.comm_hash;
  return view;
}

View view_of(const DescriptorV4& d) {
  View view = head_of(d);
  if (view.type == kColl) take_coll(view, d.coll);
  if (view.type == kP2p) take_p2p(view, d.p2p), view.channels = d.p2p.channels;
  if (view.type == kKernelCh) view.gpu_timer = d.kernel_ch.gpu_timer;
  return view;
}

template <class Descriptor>
View view_of_v56(const Descriptor& d) {
  View view = head_of(d);
  switch (view.type) {
    case kColl:
      take_coll(view, d.coll);
      view.parent_group = reinterpret_cast<Handle>(d.coll.parent_group);
      break;
    case kP2p:
      take_p2p(view, d.p2p);
      view.channels = d.p2p.channels;
      view.parent_group = reinterpret_cast<Handle>(d.p2p.parent_group);
      break;
    case kCollApi: view.captured = d.coll_api.captured; break;
    case kP2pApi: view.captured = d.p2p_api.captured; break;
    case kKernelLaunch: view.stream = d.kernel_launch.stream; break;
    case kKernelCh: view.gpu_timer = d.kernel_ch.gpu_timer; break;
    default: break;
  }
  return view;
}
View view_of(const DescriptorV5& d) { return view_of_v56(d); }

View view_of(const DescriptorV6& d) {
  View view = view_of_v56(d);
  if (view.type == kCeColl) {
    view.func = d.ce_coll.func;
    view.datatype = d.ce_coll.datatype;
    view.count = d.ce_coll.count;
    view.sequence = d.ce_coll.sequence;
    view.peer = d.ce_coll.root;
    view.stream = d.ce_coll.stream;
  }
  return view;
}

int join(void** context, int* mask, const CommView& view) {
  if (Plugin* plugin = Plugin::find_or_make()) {
    plugin->init(context, mask, view);
  } else {
    *context = nullptr;
    *mask = 0;
  }
  return kSuccess;
}

int init_v3(void** context, int* mask) { return join(context, mask, {.api = 3}); }
int init_v4(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
            LogFunction log) {
  return join(context, mask,
              {.api = 4, .hash = hash, .name = name, .nodes = nodes, .size = ranks, .rank = rank, .log = log});
}
template <int kApi>
int init_v56(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
             LogFunction log) {
  return join(context, mask,
              {.api = kApi, .hash = hash, .name = name, .nodes = nodes, .size = ranks, .rank = rank, .log = log});
}

template <class Descriptor>
int start_event(void* context, void** handle, Descriptor* descriptor) {
  Plugin::instance().start(context, handle, view_of(*descriptor), descriptor);
  return kSuccess;
}
int stop_event(void* handle) {
  if (handle) Plugin::instance().stop(handle);
  return kSuccess;
}
int record_state(void* handle, int state, StateArgs* args) {
  if (handle) Plugin::instance().record_state(handle, state, args);
  return kSuccess;
}
int finalize(void* context) {
  Plugin::instance().finalize(context);
  return kSuccess;
}

}  // namespace
}  // namespace stepscope::recorder::nccl

namespace nccl = stepscope::recorder::nccl;

#define STEPSCOPE_EXPORT __attribute__((visibility("default"), used))

extern "C" {
STEPSCOPE_EXPORT nccl::TableV3 ncclProfiler_v3 = {
    nccl::kName,      nccl::init_v3,      nccl::start_event<nccl::DescriptorV3>,
    nccl::stop_event, nccl::record_state, nccl::finalize};
STEPSCOPE_EXPORT nccl::TableV4 ncclProfiler_v4 = {
    nccl::kName,      nccl::init_v4,      nccl::start_event<nccl::DescriptorV4>,
    nccl::stop_event, nccl::record_state, nccl::finalize};
STEPSCOPE_EXPORT nccl::TableV5 ncclProfiler_v5 = {
    nccl::kName,      nccl::init_v56<5>,  nccl::start_event<nccl::DescriptorV5>,
    nccl::stop_event, nccl::record_state, nccl::finalize};
STEPSCOPE_EXPORT nccl::TableV6 ncclProfiler_v6 = {
    nccl::kName,      nccl::init_v56<6>,  nccl::start_event<nccl::DescriptorV6>,
    nccl::stop_event, nccl::record_state, nccl::finalize};
}
